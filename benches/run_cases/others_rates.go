// rates: a booking service asks a rate server over a pool of connections. rates [repaired]
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Pool hands out connections to the rate server.
type Pool struct {
	idle chan *Conn
}

// Conn is a connection with its reader.
type Conn struct {
	net.Conn
	in *bufio.Reader
}

func newPool(addr string, size int) *Pool {
	p := &Pool{idle: make(chan *Conn, size)}
	for i := 0; i < size; i++ {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			panic(err)
		}
		p.idle <- &Conn{c, bufio.NewReader(c)}
	}
	return p
}

func (p *Pool) acquire() *Conn  { return <-p.idle }
func (p *Pool) release(c *Conn) { p.idle <- c }

func (p *Pool) rate(hotel, night int) int {
	c := p.acquire()
	defer p.release(c)
	return c.ask(hotel, night)
}

func (c *Conn) ask(hotel, night int) int {
	fmt.Fprintf(c, "%d %d\n", hotel, night)
	line, err := c.in.ReadString('\n')
	if err != nil {
		panic(err)
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line))
	return n
}

func serveRates(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			in := bufio.NewReader(c)
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				var hotel, night int
				fmt.Sscan(line, &hotel, &night)
				time.Sleep(4 * time.Millisecond) // its database
				fmt.Fprintf(c, "%d\n", 60+(hotel*31+night*17)%140)
			}
		}()
	}
}

type offer struct {
	room, price int
}

// offers are the rooms of a hotel with their prices, cheapest first.
func offers(rate, hotel int) []offer {
	list := make([]offer, 4000)
	x := uint32(hotel*2654435761 + 1)
	for i := range list {
		x = x*1664525 + 1013904223
		list[i] = offer{i, rate + int(x>>24)}
	}
	sort.Slice(list, func(a, b int) bool {
		if list[a].price != list[b].price {
			return list[a].price < list[b].price
		}
		return list[a].room < list[b].room
	})
	return list
}

func voucher(guest int, list []offer) string {
	var b strings.Builder
	for i, o := range list[:200] {
		b.WriteString(strconv.Itoa(i))
		b.WriteString(": room ")
		b.WriteString(strconv.Itoa(o.room))
		b.WriteString(" at ")
		b.WriteString(strconv.Itoa(o.price))
		b.WriteByte('\n')
	}
	return b.String() + "guest " + strconv.Itoa(guest)
}

func book(p *Pool, guest int) (int, int) {
	hotel, total := guest%97, 0
	rate := p.rate(hotel, guest%365)
	list := offers(rate, hotel)
	total += list[guest%50].price
	return total, len(voucher(guest, list))
}

func main() {
	size := 2
	if len(os.Args) > 1 && os.Args[1] == "repaired" {
		size = 32
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go serveRates(l)
	pool := newPool(l.Addr().String(), size)
	guests := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	revenue, paper := 0, 0
	for w := 0; w < 32; w++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for g := range guests {
				money, bytes := book(pool, g)
				mu.Lock()
				revenue += money
				paper += bytes
				mu.Unlock()
			}
		}()
	}
	for g := 0; g < 1800; g++ {
		guests <- g
	}
	close(guests)
	wg.Wait()
	fmt.Println("revenue", revenue, "paper", paper)
}
