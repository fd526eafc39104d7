# Prints statistics of the lines of a file, and the singular values of a matrix.
lines <- readLines(commandArgs(TRUE)[1], encoding = "latin1")
words <- unlist(strsplit(lines, "[^A-Za-z_]+", useBytes = TRUE))
counts <- sort(table(words), decreasing = TRUE)
print(head(counts, 200))
lengths <- nchar(lines, "bytes")
print(summary(lengths))
square <- outer(1:300, 1:300, function(a, b) sin(a * b))
print(round(svd(square)$d[1:20], 6))
