// Prints the most frequent words of a file, and the sum of the numbers of their lines.
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;

public class Index {
    record Word(String text, List<Integer> lines) {}

    public static void main(String[] arguments) throws Exception {
        Map<String, List<Integer>> places = new HashMap<>();
        try (var lines = Files.newBufferedReader(Path.of(arguments[0]), StandardCharsets.ISO_8859_1)) {
            int number = 0;
            for (String line; (line = lines.readLine()) != null; number++) {
                for (String word : line.split("\\s+")) {
                    places.computeIfAbsent(word, any -> new ArrayList<>()).add(number);
                }
            }
        }
        List<Word> words = new ArrayList<>();
        places.forEach((text, lines) -> words.add(new Word(text, lines)));
        words.sort(Comparator.comparingInt((Word word) -> -word.lines().size()).thenComparing(Word::text));
        System.out.println(words.size());
        for (Word word : words.subList(0, Math.min(1000, words.size()))) {
            long sum = word.lines().stream().mapToLong(Integer::longValue).sum();
            System.out.println(word.text().length() + " " + word.lines().size() + " " + sum);
        }
    }
}
