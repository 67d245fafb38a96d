// `outer` and `leaf`, which it calls and which has no frame, run loops of the same length: leaf SECONDS.
package main

import (
	"os"
	"strconv"
	"time"
)

//go:noinline
func leaf(x uint32) uint32 {
	for i := 0; i < 200; i++ {
		x = x*1664525 + 1013904223
	}
	return x
}

//go:noinline
func outer(x uint32) uint32 {
	for call := 0; call < 1000; call++ {
		for i := 0; i < 200; i++ {
			x = x*22695477 + 1
		}
		x = leaf(x)
	}
	return x
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	end := time.Now().Add(time.Duration(seconds * 1e9))
	sum := uint32(1)
	for time.Now().Before(end) {
		sum = outer(sum)
	}
	if sum == 1 {
		os.Exit(1)
	}
}
