// Prints the most frequent words of a file, and the sum of the numbers of their lines.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strings"
)

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	places := map[string][]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		for _, word := range strings.Fields(lines.Text()) {
			places[word] = append(places[word], number)
		}
	}
	words := make([]string, 0, len(places))
	for word := range places {
		words = append(words, word)
	}
	sort.Slice(words, func(i, j int) bool {
		a, b := len(places[words[i]]), len(places[words[j]])
		return a > b || a == b && words[i] < words[j]
	})
	fmt.Println(len(words))
	for _, word := range words[:min(1000, len(words))] {
		sum := 0
		for _, place := range places[word] {
			sum += place
		}
		fmt.Printf("%q %d %d\n", word, len(places[word]), sum)
	}
}
