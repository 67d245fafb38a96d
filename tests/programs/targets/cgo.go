// Go calls C, which calls Go, on the stacks of both.
package main

/*
#include <stdint.h>
extern uint64_t back(uint64_t, int);
static uint64_t down(uint64_t value, int depth) { return depth ? back(value * 31 + depth, depth - 1) : value; }
*/
import "C"
import "fmt"

//export back
func back(value C.uint64_t, depth C.int) C.uint64_t {
	return C.down(value+7, depth) ^ 5
}

func main() {
	results := make(chan uint64)
	for n := 0; n < 8; n++ {
		go func(n int) {
			sum := uint64(n)
			for round := 0; round < 200; round++ {
				sum = uint64(C.down(C.uint64_t(sum), C.int(round%6)))
			}
			results <- sum
		}(n)
	}
	var all uint64
	for n := 0; n < 8; n++ {
		all += <-results
	}
	fmt.Println(all)
}
