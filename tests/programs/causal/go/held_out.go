package main

import "sync"

//go:noinline
func fill(n int) { spin(n) }

//go:noinline
func drain(n int) { spin(n) }

// One goroutine fills an unbuffered channel that four others drain.
func workers() {
	jobs := make(chan int)
	f, d := work("fill", 100000), work("drain", 80000)
	go func() {
		for {
			fill(f)
			jobs <- d
		}
	}()
	for range 4 {
		go func() {
			for n := range jobs {
				drain(n)
				progress()
			}
		}()
	}
}

//go:noinline
func produce(n int) { spin(n) }

//go:noinline
func consume(n int) { spin(n) }

// A producer and a consumer with a queue of eight, a mutex and a condition.
func cond() {
	var lock sync.Mutex
	changed := sync.NewCond(&lock)
	p, c := work("produce", 100000), work("consume", 160000)
	items := 0
	change := func(by, forbidden int) {
		lock.Lock()
		for items == forbidden {
			changed.Wait()
		}
		items += by
		changed.Broadcast()
		lock.Unlock()
	}
	go func() {
		for {
			produce(p)
			change(1, 8)
		}
	}()
	go func() {
		for {
			change(-1, 0)
			consume(c)
			progress()
		}
	}()
}

//go:noinline
func long(n int) { spin(n) }

//go:noinline
func short(n int) { spin(n) }

// Two goroutines meet after each round, in which one has more to do.
func uneven() {
	l, s := work("long", 400000), work("short", 300000)
	go func() {
		for {
			var group sync.WaitGroup
			group.Add(2)
			go func() { long(l); group.Done() }()
			go func() { short(s); group.Done() }()
			group.Wait()
			progress()
		}
	}()
}
