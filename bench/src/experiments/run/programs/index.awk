# Prints the number of words, the longest list of lines of a word, and sums.
{ for (at = 1; at <= NF; at++) { places[$at] = places[$at] "," NR; count[$at]++ } }
END {
    for (word in places) { words++; bytes += length(places[word]); squares += count[word] * count[word] }
    print words, bytes, squares, length(places["self"]), count["return"]
}
