"""Writes an input of a given size, with the same contents in each run. The input "lines" has the lines
of the library's sources as grep prints them. The input "source" is a C++ file that takes long to compile."""

import os
import sys
import sysconfig

UNIT = """
struct Record{0} {{
    int number;
    std::string name;
    std::vector<std::pair<std::string, long>> parts;
    std::map<std::string, std::vector<int>> index;
    template <typename Each> void each(Each &&of) const {{
        for (auto const &[word, places] : index) of(word, places.size());
    }}
    bool operator<(Record{0} const &other) const {{
        return std::tie(number, name, parts) < std::tie(other.number, other.name, other.parts);
    }}
}};
long work{0}(std::vector<Record{0}> &records, std::string const &wanted) {{
    std::sort(records.begin(), records.end());
    std::unordered_map<std::string, std::shared_ptr<Record{0}>> found;
    std::function<long(Record{0} const &)> sum = [&](Record{0} const &record) {{
        long all = {0};
        record.each([&](std::string const &word, long count) {{
            if (word.find(wanted) != std::string::npos) all += count * {1};
        }});
        for (auto const &part : record.parts) all ^= part.second + part.first.size();
        return all;
    }};
    long all = 0;
    for (auto &record : records) {{
        all += sum(record);
        found.emplace(record.name + std::to_string(all), std::make_shared<Record{0}>(record));
    }}
    return std::accumulate(found.begin(), found.end(), all, [](long so_far, auto const &each) {{
        return so_far * 31 + each.second->number;
    }});
}}
"""
HEAD = "algorithm functional map memory numeric string tuple unordered_map vector"


def lines(target):
    """Yields lines. A line consists of a file's name, a line number, and the text of that line."""
    root, done = sysconfig.get_paths()["stdlib"], 0
    while True:
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if name not in ("dist-packages", "site-packages"))
            for name in sorted(name for name in names if name.endswith(".py")):
                path = os.path.relpath(os.path.join(folder, name), root)
                with open(os.path.join(folder, name), encoding="latin-1") as file:
                    for number, text in enumerate(file, 1):
                        line = f"{path}:{number}:{text.rstrip()}\n"
                        done += len(line)
                        if done > target:
                            return
                        yield line


def source(target):
    """Yields the parts of a C++ file."""
    head = "".join(f"#include <{name}>\n" for name in HEAD.split())
    yield head
    done, number = len(head), 0
    while done < target:
        unit = UNIT.format(number, number * 2654435761 % 99991)
        done, number = done + len(unit), number + 1
        yield unit


kind, size, path = sys.argv[1:]
with open(path, "w", encoding="latin-1") as file:
    file.writelines({"lines": lines, "source": source}[kind](int(size)))
