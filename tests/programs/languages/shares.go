// Three quarters of the iterations, and so of the CPU time, are in `three`, one quarter in `one`. Arguments: seconds of CPU time, and how:
// `plain`, `recursive`, `threads` or `labels` (of the time, three quarters are labelled `route=/three` and one quarter `route=/one`).
package main

import (
	"context"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"syscall"
)

const iterations = 300_000

var sink uint64

func spin(n uint64) uint64 {
	total := uint64(1)
	for i := uint64(0); i < n; i++ {
		total = total*6364136223846793005 + i
	}
	return total
}

//go:noinline
func three(n uint64) uint64 { return spin(n) }

//go:noinline
func one(n uint64) uint64 { return spin(n) }

//go:noinline
func descend(depth int) uint64 {
	if depth == 0 {
		return three(3 * iterations)
	}
	return descend(depth-1) + 1
}

// cpuSeconds is the CPU time of the process.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		os.Exit(1)
	}
	return float64(usage.Utime.Nano()) / 1e9
}

func rounds(end float64, deep bool) (total uint64) {
	for cpuSeconds() < end {
		if deep {
			total += descend(20)
		} else {
			total += three(3 * iterations)
		}
		total += one(iterations)
	}
	return total
}

func labelled(end float64) {
	work := func(route string, f func(uint64) uint64, n uint64) {
		labels := pprof.Labels("route", route, "worker", "a worker whose name is longer than one that fits into a few words")
		pprof.Do(context.Background(), labels, func(context.Context) { sink += f(n) })
	}
	for cpuSeconds() < end {
		work("/three", three, 30*iterations)
		work("/one", one, 10*iterations)
	}
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		os.Exit(2)
	}
	switch os.Args[2] {
	case "threads":
		var all sync.WaitGroup
		for i := 0; i < 4; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				rounds(seconds, false)
			}()
		}
		all.Wait()
	case "labels":
		labelled(seconds)
	default:
		sink = rounds(seconds, os.Args[2] == "recursive")
	}
}
