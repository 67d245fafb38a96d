// Goroutines that hand a number on.
package main

import "fmt"

func main() {
	first := make(chan int)
	in := first
	for n := 0; n < 100; n++ {
		out := make(chan int)
		go func(in, out chan int, n int) {
			for value := range in {
				out <- value*31 + n
			}
			close(out)
		}(in, out, n)
		in = out
	}
	go func() {
		for n := 0; n < 200; n++ {
			first <- n
		}
		close(first)
	}()
	sum := 0
	for value := range in {
		sum = sum*7 + value
	}
	fmt.Println(sum)
}
