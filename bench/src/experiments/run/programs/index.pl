# Prints the most frequent words of a file, and the sum of the numbers of their lines.
use strict;
my %places;
open(my $file, '<', $ARGV[0]) or die;
while (my $line = <$file>) {
    push @{$places{$_}}, $. for split ' ', $line;
}
my @words = sort { @{$places{$b}} <=> @{$places{$a}} || $a cmp $b } keys %places;
print scalar(@words), "\n";
for my $word (@words[0 .. 999]) {
    my $sum = 0;
    $sum += $_ for @{$places{$word}};
    print "$word ", scalar(@{$places{$word}}), " $sum\n";
}
