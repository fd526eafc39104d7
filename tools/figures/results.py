"""Reads the committed results of `bench` in bench/results, which have one JSON object per line."""

import json


class Missing(Exception):
    """A document needs a figure that is not in the committed results."""


class Results:
    """All figures in a directory, by file and name."""

    def __init__(self, folder):
        self.files = {}
        for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.stem):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            self.files[path.stem] = {line["figure"]: line for line in lines}

    def line(self, file, figure):
        """Returns the JSON object of a figure."""
        try:
            return self.files[file][figure]
        except KeyError:
            raise Missing(f"bench/results/{file}.jsonl has no figure {figure!r}") from None

    def value(self, file, figure):
        """Returns the measured value of a figure."""
        return self.number(file, figure, "value")

    def rival(self, file, figure):
        """Returns the rival's value of a figure, from the same run."""
        return self.number(file, figure, "rival_value")

    def number(self, file, figure, key):
        number = self.line(file, figure)[key]
        if number is None:
            raise Missing(f"bench/results/{file}.jsonl: {figure!r} has no {key}")
        return number

    def processors(self, file):
        """Returns the names of processors in a file. The list is empty for a file of an older `bench`."""
        names = {line.get("processor") for line in self.files[file].values()}
        return sorted(names - {None})

    def failed(self):
        """Yields the file and the JSON object of each figure that misses its bound."""
        for file, lines in self.files.items():
            for line in lines.values():
                if line["pass"] is False:
                    yield file, line

    def ends(self, file, what):
        """Returns the minimum and the maximum of the figures whose names end with `what`."""
        values = [line["value"] for name, line in self.files[file].items() if name.endswith(what)]
        if not values:
            raise Missing(f"bench/results/{file}.jsonl has no figure that ends with {what!r}")
        return min(values), max(values)

    def runs(self, experiment):
        """Returns the files of an experiment, one for each processor, such as NAME.jsonl and NAME-OTHER.jsonl."""
        return [name for name in self.files if name == experiment or name.startswith(experiment + "-")]
