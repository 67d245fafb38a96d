// rollup: a request is summed up under keys that are formatted texts, one for its count and the same for its bytes; repaired, under structs;
// doubled, each key is formatted once. doubled_rollup [repaired | doubled]
package main

import (
	"bytes"
	"fmt"
	"os"
	"sort"
)

const requests = 900_000

type request struct {
	host, method string
	status       int
	minute       int
	depth        int
	agent        string
	bytes        int64
	path         []byte
}

type key struct {
	host, method  string
	status        int
	minute, depth int
	agent         string
}

type sums[Key comparable] struct {
	counts map[Key]int64
	bytes  map[Key]int64
}

func newSums[Key comparable]() *sums[Key] {
	return &sums[Key]{map[Key]int64{}, map[Key]int64{}}
}

var (
	hosts   = []string{"www", "api", "static", "mail", "shop"}
	methods = []string{"GET", "POST", "PUT"}
	paths   = []string{"/index.html", "/articles/{n}/pictures", "/cart/{n}", "/search/of/many/words", "/login"}
	agents  = []string{"browser", "reader", "script"}
	states  = []int{200, 200, 200, 304, 404, 500}
)

//go:noinline
func readRequest(number int) request {
	seed := uint32(number) * 2654435761
	path := []byte(paths[seed>>9%5])
	path = bytes.Replace(path, []byte("{n}"), fmt.Append(nil, seed>>12&1023), 1)
	return request{
		depth:  bytes.Count(path, []byte("/")),
		agent:  agents[number/3_000%3],
		host:   hosts[seed>>3%5],
		method: methods[seed>>7%3],
		status: states[seed>>11%6],
		minute: number / 20_000,
		bytes:  int64(seed>>14&0xffff) + 200,
		path:   path,
	}
}

//go:noinline
func isRobot(one request) bool {
	hash := uint32(2166136261)
	for round := 0; round < 6; round++ {
		for _, letter := range one.path {
			hash = (hash ^ uint32(letter)) * 16777619
		}
	}
	return hash%97 == 0
}

//go:noinline
func textKey(one request) string {
	return fmt.Sprintf("%s/%s/%d/%04d/%02d/%q", one.host, one.method, one.status, one.minute, one.depth, one.agent)
}

//go:noinline
func addByText(to *sums[string], one request, once bool) {
	first := textKey(one)
	to.counts[first]++
	if !once {
		first = textKey(one)
	}
	to.bytes[first] += one.bytes
}

//go:noinline
func addByStruct(to *sums[key], one request) {
	its := key{one.host, one.method, one.status, one.minute, one.depth, one.agent}
	to.counts[its]++
	to.bytes[its] += one.bytes
}

//go:noinline
func longestPart(path []byte) int {
	longest := 0
	for len(path) > 0 {
		part, rest, _ := bytes.Cut(path, []byte("/"))
		longest = max(longest, len(part))
		path = rest
	}
	return longest
}

func report[Key comparable](from *sums[Key]) {
	lines := make([]string, 0, len(from.counts))
	for its, count := range from.counts {
		lines = append(lines, fmt.Sprintf("%v: %d requests, %d bytes", its, count, from.bytes[its]))
	}
	sort.Strings(lines)
	for _, line := range lines[:20] {
		fmt.Println(line)
	}
}

func main() {
	form := ""
	if len(os.Args) > 1 {
		form = os.Args[1]
	}
	byText, byStruct := newSums[string](), newSums[key]()
	robots, longest := 0, 0
	for number := 0; number < requests; number++ {
		one := readRequest(number)
		if isRobot(one) {
			robots++
			continue
		}
		longest += longestPart(one.path)
		if form == "repaired" {
			addByStruct(byStruct, one)
		} else {
			addByText(byText, one, form == "doubled")
		}
	}
	if form == "repaired" {
		report(byStruct)
	} else {
		report(byText)
	}
	fmt.Println(robots, "robots, parts of", longest)
}
