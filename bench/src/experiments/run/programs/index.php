<?php
// Prints the most frequent words of a file, and the sum of the numbers of their lines.
ini_set('memory_limit', '-1');
$places = [];
$number = 0;
$file = fopen($argv[1], 'r');
while (($line = fgets($file)) !== false) {
    $number++;
    foreach (preg_split('/\s+/', $line, -1, PREG_SPLIT_NO_EMPTY) as $word) $places["w$word"][] = $number;
}
uksort($places, fn($a, $b) => count($places[$b]) <=> count($places[$a]) ?: strcmp($a, $b));
echo count($places), "\n";
foreach (array_slice($places, 0, 1000) as $word => $found) echo "$word ", count($found), ' ', array_sum($found), "\n";
