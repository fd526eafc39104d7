// A program that checks its own memory. Goroutines build and change trees, maps and slices, and
// check their contents. Garbage collections and child processes run at the same time.
//
//	heap SEED STEPS GOROUTINES
package main

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
)

const slots = 2000

type node struct {
	left, right *node
	stamp       uint64
	text        []byte
}

func number(nth int) int {
	value, err := strconv.Atoi(os.Args[nth])
	check(err == nil, "a number")
	return value
}

func check(isSo bool, name string, values ...any) {
	if !isSo {
		panic(fmt.Sprint(name, values))
	}
}

func grow(depth int, stamp uint64, random *rand.Rand) *node {
	if depth == 0 {
		return nil
	}
	text := make([]byte, random.Intn(300))
	for at := range text {
		text[at] = byte(stamp + uint64(at)/16)
	}
	return &node{grow(depth-1, stamp*2, random), grow(depth-1, stamp*2+1, random), stamp, text}
}

func (tree *node) verify(stamp uint64) int {
	if tree == nil {
		return 0
	}
	check(tree.stamp == stamp, "a stamp", tree.stamp, stamp)
	for at, value := range tree.text {
		check(value == byte(stamp+uint64(at)/16), "a byte", stamp, at)
	}
	return 1 + tree.left.verify(stamp*2) + tree.right.verify(stamp*2+1)
}

func work(nth, steps int, seed int64) {
	random := rand.New(rand.NewSource(seed*31 + int64(nth)))
	trees, stamps := make([]*node, slots), make([]uint64, slots)
	names := map[string]uint64{}
	for step := 0; step < steps; step++ {
		at := random.Intn(slots)
		name := fmt.Sprint("slot ", at)
		switch random.Intn(8) {
		case 0, 1, 2, 3:
			depth := 1 + random.Intn(6)
			stamp := uint64(step + 1)
			trees[at], stamps[at] = grow(depth, stamp, random), stamp
			names[name] = stamp
		case 4:
			trees[at], stamps[at] = nil, 0
			delete(names, name)
		default:
			trees[at].verify(stamps[at])
			check(names[name] == stamps[at], "a name", name)
		}
		if random.Intn(steps/2+1) == 0 {
			runtime.GC()
		}
		if random.Intn(steps/2+1) == 0 {
			output, err := exec.Command("/bin/echo", name).Output()
			check(err == nil && string(output) == name+"\n", "a child", err, string(output))
		}
	}
	for at, tree := range trees {
		tree.verify(stamps[at])
	}
}

func main() {
	seed, steps, count := int64(number(1)), number(2), number(3)
	var group sync.WaitGroup
	for nth := 0; nth < count; nth++ {
		group.Add(1)
		go func() {
			defer group.Done()
			work(nth, steps, seed)
		}()
	}
	group.Wait()
	fmt.Println("all is there")
}
