# Prints the most frequent words of a file, and the sum of the numbers of their lines.
places = Hash.new { |table, word| table[word] = [] }
File.open(ARGV[0], 'rb') do |file|
  file.each_line.with_index(1) { |line, number| line.split.each { |word| places[word] << number } }
end
words = places.sort_by { |word, found| [-found.size, word] }
puts words.size
words.first(1000).each { |word, found| puts "#{word} #{found.size} #{found.sum}" }
