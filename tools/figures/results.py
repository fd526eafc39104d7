"""The committed results of `bench`: one JSON object a line, in bench/results."""

import json


class Missing(Exception):
    """A document asks for a figure that no committed result has."""


class Results:
    """All figures of a folder, by file and name."""

    def __init__(self, folder):
        self.files = {}
        for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.stem):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            self.files[path.stem] = {line["figure"]: line for line in lines}

    def line(self, file, figure):
        """Returns the whole line of a figure."""
        try:
            return self.files[file][figure]
        except KeyError:
            raise Missing(f"bench/results/{file}.jsonl has no figure {figure!r}") from None

    def value(self, file, figure):
        """Returns what was measured."""
        return self.number(file, figure, "value")

    def rival(self, file, figure):
        """Returns what the rival gave in the same run."""
        return self.number(file, figure, "rival_value")

    def number(self, file, figure, key):
        number = self.line(file, figure)[key]
        if number is None:
            raise Missing(f"bench/results/{file}.jsonl: {figure!r} has no {key}")
        return number

    def processors(self, file):
        """Returns the processors that a file names; none where it was made before `bench` told them."""
        names = {line.get("processor") for line in self.files[file].values()}
        return sorted(names - {None})

    def failed(self):
        """Yields file and line of each figure that misses its bound."""
        for file, lines in self.files.items():
            for line in lines.values():
                if line["pass"] is False:
                    yield file, line

    def ends(self, file, what):
        """Returns the least and the greatest value of the figures whose name ends with `what`."""
        values = [line["value"] for name, line in self.files[file].items() if name.endswith(what)]
        if not values:
            raise Missing(f"bench/results/{file}.jsonl has no figure that ends with {what!r}")
        return min(values), max(values)

    def runs(self, experiment):
        """Returns the files of an experiment, one for each processor: NAME.jsonl, NAME-OTHER.jsonl."""
        return [name for name in self.files if name == experiment or name.startswith(experiment + "-")]
