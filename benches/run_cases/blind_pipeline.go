// pipeline: orders go through three stages, of which pricing seeks its tax in a list; repaired, in a map. blind_pipeline [repaired]
package main

import (
	"fmt"
	"os"
)

type order struct {
	region string
	cents  int
}

type rate struct {
	region  string
	percent int
}

var (
	repaired = len(os.Args) > 1
	rates    []rate
	byRegion = map[string]int{}
)

//go:noinline
func taxOf(region string) int {
	if repaired {
		return byRegion[region]
	}
	for _, each := range rates {
		if each.region == region {
			return each.percent
		}
	}
	return 0
}

func readOrders(out chan<- order) {
	defer close(out)
	for i := 0; i < 120000; i++ {
		out <- order{fmt.Sprintf("region-%05d", i*7919%3000), i % 1000}
	}
}

func priceOrders(in <-chan order, out chan<- int) {
	defer close(out)
	for each := range in {
		out <- each.cents + each.cents*taxOf(each.region)/100
	}
}

func main() {
	for i := 0; i < 3000; i++ {
		name := fmt.Sprintf("region-%05d", i)
		rates = append(rates, rate{name, i % 30})
		byRegion[name] = i % 30
	}
	orders, prices := make(chan order, 64), make(chan int, 64)
	go readOrders(orders)
	go priceOrders(orders, prices)
	sum := 0
	for price := range prices {
		sum += price
	}
	fmt.Println(sum)
}
