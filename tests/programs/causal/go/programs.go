package main

import "sync"

//go:noinline
func stageA(n int) { spin(n) }

//go:noinline
func stageB(n int) { spin(n) }

// Two stages with a channel between them: the first takes longer.
func pipeline() {
	items := make(chan int, 4)
	a, b := work("stageA", 300000), work("stageB", 200000)
	go func() {
		for {
			stageA(a)
			items <- 1
		}
	}()
	go func() {
		for {
			<-items
			stageB(b)
			progress()
		}
	}()
}

//go:noinline
func locked(n int) { spin(n) }

//go:noinline
func free(n int) { spin(n) }

// Two goroutines that do most of their work under one mutex.
func locks() {
	var lock sync.Mutex
	l, f := work("locked", 200000), work("free", 100000)
	for range 2 {
		go func() {
			for {
				lock.Lock()
				locked(l)
				lock.Unlock()
				free(f)
				progress()
			}
		}()
	}
}

//go:noinline
func divide(n int) { spin(n) }

//go:noinline
func solve(n int) { spin(n) }

// A hundred goroutines solve in parallel what one divides before the next round.
func pool() {
	d, s := work("divide", 2000000), work("solve", 60000)
	go func() {
		for {
			divide(d)
			var group sync.WaitGroup
			for range 100 {
				group.Add(1)
				go func() {
					solve(s)
					group.Done()
				}()
			}
			group.Wait()
			progress()
		}
	}()
}
