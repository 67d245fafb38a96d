// locking: two workers render pages while they hold the lock of the visits; repaired, they hold it for the count alone. blind_locking [repaired]
package main

import (
	"fmt"
	"hash/fnv"
	"os"
	"sync"
)

var repaired = len(os.Args) > 1

type visits struct {
	lock   sync.Mutex
	counts map[string]int
}

//go:noinline
func renderPage(name string) uint64 {
	sum := fnv.New64a()
	for i := 0; i < 150; i++ {
		fmt.Fprintf(sum, "%s-%d", name, i)
	}
	return sum.Sum64()
}

//go:noinline
func (all *visits) countVisit(name string) uint64 {
	if repaired {
		page := renderPage(name)
		all.lock.Lock()
		all.counts[name]++
		all.lock.Unlock()
		return page
	}
	all.lock.Lock()
	defer all.lock.Unlock()
	all.counts[name]++
	return renderPage(name)
}

func main() {
	all := &visits{counts: map[string]int{}}
	var workers sync.WaitGroup
	sums := [2]uint64{}
	for worker := range sums {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for i := 0; i < 45000; i++ {
				sums[worker] ^= all.countVisit(fmt.Sprintf("page-%d", (i+worker)%50))
			}
		}()
	}
	workers.Wait()
	fmt.Println(sums[0]^sums[1], len(all.counts))
}
