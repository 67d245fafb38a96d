// suppliers: a shop asks four suppliers for a price, one after the other; repaired, all at once; doubled, they answer in half the time.
// doubled_suppliers [repaired | doubled]
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sort"
	"strings"
	"sync"
	"time"
)

const (
	articles  = 70
	suppliers = 4
	pause     = 8 * time.Millisecond
	// Says to this program that it is the suppliers.
	asSuppliers = "DOUBLED_SUPPLIERS"
)

type offer struct {
	supplier int
	cents    int
	days     int
}

func serve(at net.Listener, pause time.Duration) {
	for {
		client, err := at.Accept()
		if err != nil {
			return
		}
		go func() {
			questions := bufio.NewScanner(client)
			for questions.Scan() {
				time.Sleep(pause)
				var supplier, article int
				fmt.Sscanf(questions.Text(), "%d %d", &supplier, &article)
				fmt.Fprintf(client, "%d %d\n", 900+(article*31+supplier*17)%400, 1+(article+supplier)%5)
			}
		}()
	}
}

func beSuppliers() {
	pause, err := time.ParseDuration(os.Getenv(asSuppliers))
	if err != nil {
		panic(err)
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go serve(at, pause)
	fmt.Println(at.Addr())
	// Until the shop closes.
	bufio.NewReader(os.Stdin).ReadByte()
}

type line struct {
	connection net.Conn
	answers    *bufio.Reader
}

//go:noinline
func (one line) askSupplier(supplier, article int) offer {
	fmt.Fprintf(one.connection, "%d %d\n", supplier, article)
	answer, err := one.answers.ReadString('\n')
	if err != nil {
		panic(err)
	}
	got := offer{supplier: supplier}
	fmt.Sscanf(answer, "%d %d", &got.cents, &got.days)
	return got
}

func askAll(lines []line, article int, together bool) []offer {
	offers := make([]offer, len(lines))
	var asked sync.WaitGroup
	for supplier, one := range lines {
		if !together {
			offers[supplier] = one.askSupplier(supplier, article)
			continue
		}
		asked.Add(1)
		go func() {
			defer asked.Done()
			offers[supplier] = one.askSupplier(supplier, article)
		}()
	}
	asked.Wait()
	return offers
}

//go:noinline
func bestOffer(offers []offer) offer {
	sort.Slice(offers, func(one, other int) bool {
		return offers[one].cents+offers[one].days*20 < offers[other].cents+offers[other].days*20
	})
	return offers[0]
}

// How many pieces are needed, by what was sold in many days like the coming ones.
//
//go:noinline
func forecastDemand(article int) float64 {
	demand, level := 0.0, 10.0
	for day := 0; day < 500_000; day++ {
		sold := float64((day*7919+article*104729)%21) - 10
		level = level*0.98 + (10+sold)*0.02
		demand += level / (1 + level*level/400)
	}
	return demand / 500_000
}

//go:noinline
func renderPage(article int, best offer, demand float64) int {
	var page strings.Builder
	for row := 0; row < 2000; row++ {
		fmt.Fprintf(&page, "<tr><td>%d</td><td>%d.%02d</td><td>%.2f</td></tr>\n", article+row, best.cents/100, best.cents%100, demand)
	}
	return strings.Count(page.String(), "<td>")
}

func main() {
	if os.Getenv(asSuppliers) != "" {
		beSuppliers()
		return
	}
	form := strings.Join(os.Args[1:], "")
	theirs := exec.Command(os.Args[0])
	length := pause
	if form == "doubled" {
		length /= 2
	}
	theirs.Env = append(os.Environ(), asSuppliers+"="+length.String())
	open, _ := theirs.StdinPipe()
	said, _ := theirs.StdoutPipe()
	if err := theirs.Start(); err != nil {
		panic(err)
	}
	address, _ := bufio.NewReader(said).ReadString('\n')
	lines := make([]line, suppliers)
	for supplier := range lines {
		connection, err := net.Dial("tcp", strings.TrimSpace(address))
		if err != nil {
			panic(err)
		}
		lines[supplier] = line{connection, bufio.NewReader(connection)}
	}
	cells := 0
	for article := 0; article < articles; article++ {
		best := bestOffer(askAll(lines, article, form == "repaired"))
		cells += renderPage(article, best, forecastDemand(article))
	}
	fmt.Println(cells, "cells")
	open.Close()
	theirs.Wait()
}
