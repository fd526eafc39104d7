# Prints the number of words of a file, sums over all words, and figures of two words.
{ for (at = 1; at <= NF; at++) { places[$at] = places[$at] "," NR; count[$at]++ } }
END {
    for (word in places) { words++; bytes += length(places[word]); squares += count[word] * count[word] }
    print words, bytes, squares, length(places["self"]), count["return"]
}
