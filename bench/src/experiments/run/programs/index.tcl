# Prints the most frequent words of a file, and the sum of the numbers of their lines.
set file [open [lindex $argv 0] rb]
set number 0
while {[gets $file line] >= 0} {
    incr number
    foreach word [regexp -all -inline {\S+} $line] { lappend places($word) $number }
}
set words {}
foreach word [array names places] { lappend words [list $word [llength $places($word)]] }
set words [lsort -integer -decreasing -index 1 [lsort -index 0 $words]]
puts [llength $words]
foreach pair [lrange $words 0 999] {
    puts "$pair [tcl::mathop::+ {*}$places([lindex $pair 0])]"
}
