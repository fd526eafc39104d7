"""Converts an index of a file's words to JSON and back. Prints the most frequent words."""

import json
import sys

places = {}
with open(sys.argv[1], encoding="latin-1") as file:
    for number, line in enumerate(file):
        for word in line.split():
            places.setdefault(word, []).append(number)
places = json.loads(json.dumps(places))
words = sorted(places.items(), key=lambda pair: (-len(pair[1]), pair[0]))
print(len(words))
for word, found in words[:1000]:
    print(ascii(word), len(found), sum(found))
