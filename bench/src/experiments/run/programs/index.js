// Prints the most frequent words of a file, and the sum of the numbers of their lines.
const places = new Map();
const text = require('fs').readFileSync(process.argv[2], 'latin1');
text.split('\n').forEach((line, number) => {
    for (const word of line.split(/\s+/)) {
        const found = places.get(word);
        if (found) found.push(number); else places.set(word, [number]);
    }
});
const words = [...places].sort(([a, x], [b, y]) => y.length - x.length || (a < b ? -1 : 1));
console.log(words.length);
for (const [word, found] of words.slice(0, 1000)) {
    console.log(word, found.length, found.reduce((sum, place) => sum + place, 0));
}
