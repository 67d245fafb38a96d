// Package main: what the programs of this directory have in common, as causal.h for those in C.
//
//	program PROGRAM [FUNCTION [PERCENT [SECONDS]]]
//
// The work of FUNCTION is PERCENT less. Prints the visits a second of its progress point, `progress`.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

var visits atomic.Int64

// Work of about n ns.
//
//go:noinline
func spin(n int) int {
	s := 0
	for i := 0; i < n; i++ {
		s = (s*31 + i) % 1000003
	}
	return s
}

//go:noinline
func progress() { visits.Add(1) }

func argument(at int, without string) string {
	if len(os.Args) > at {
		return os.Args[at]
	}
	return without
}

// How much work the function of this name has, of n.
func work(function string, n int) int {
	if argument(2, "") != function {
		return n
	}
	percent, _ := strconv.Atoi(argument(3, "0"))
	return n * (100 - percent) / 100
}

func main() {
	seconds, _ := strconv.ParseFloat(argument(4, "10"), 64)
	switch argument(1, "") {
	case "pipeline":
		pipeline()
	case "locks":
		locks()
	case "pool":
		pool()
	case "workers":
		workers()
	case "cond":
		cond()
	case "uneven":
		uneven()
	}
	begin := time.Now()
	time.Sleep(time.Duration(seconds * 1e9))
	fmt.Println(float64(visits.Load()) / time.Since(begin).Seconds())
}
