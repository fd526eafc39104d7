// Reads bytes from one file and writes them to another, one at a time.
package main

import (
	"os"
	"strconv"
	"syscall"
)

func main() {
	count, wrong := strconv.Atoi(os.Args[1])
	from, missing := syscall.Open("/dev/zero", syscall.O_RDONLY, 0)
	to, absent := syscall.Open("/dev/null", syscall.O_WRONLY, 0)
	if wrong != nil || missing != nil || absent != nil {
		os.Exit(2)
	}
	one := make([]byte, 1)
	for ; count > 0; count-- {
		if n, _ := syscall.Read(from, one); n != 1 {
			os.Exit(1)
		}
		if n, _ := syscall.Write(to, one); n != 1 {
			os.Exit(1)
		}
	}
}
