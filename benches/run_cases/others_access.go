// access: a web server's log is read, and summed up by path and by hour. access [repaired]
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
)

type entry struct {
	host           string
	hour, min, sec int
	method, path   string
	status, bytes  int
	millis         float64
}

var repaired bool

func makeLog(lines int) []byte {
	var b bytes.Buffer
	x := uint32(42)
	next := func(n int) int {
		x = x*1664525 + 1013904223
		return int(x>>8) % n
	}
	methods := []string{"GET", "GET", "GET", "POST", "PUT"}
	sections := []string{"news", "shop", "users", "search", "static"}
	for i := 0; i < lines; i++ {
		fmt.Fprintf(&b, "10.%d.%d.%d %02d:%02d:%02d %s /%s/%d %d %d %.3f\n", next(4), next(256), next(256),
			i*24/lines, next(60), next(60), methods[next(5)], sections[next(5)], next(3000),
			[]int{200, 200, 200, 304, 404, 500}[next(6)], next(90000), float64(next(900000))/1000)
	}
	return b.Bytes()
}

func parseEntry(line string, e *entry) error {
	if !repaired {
		_, err := fmt.Sscanf(line, "%s %d:%d:%d %s %s %d %d %f", &e.host, &e.hour, &e.min, &e.sec,
			&e.method, &e.path, &e.status, &e.bytes, &e.millis)
		return err
	}
	var err error
	f := strings.Fields(line)
	if len(f) != 7 || len(f[1]) != 8 {
		return fmt.Errorf("bad line %q", line)
	}
	e.host, e.method, e.path = f[0], f[2], f[3]
	number := func(s string) int {
		n, problem := strconv.Atoi(s)
		if problem != nil {
			err = problem
		}
		return n
	}
	e.hour, e.min, e.sec = number(f[1][:2]), number(f[1][3:5]), number(f[1][6:])
	e.status, e.bytes = number(f[4]), number(f[5])
	e.millis, _ = strconv.ParseFloat(f[6], 64)
	return err
}

type summary struct {
	hits, errors, bytes int
	times               []float64
}

type report struct {
	byPath map[string]*summary
	byHour [24]summary
	hosts  map[string]int
}

func (r *report) add(e *entry) {
	s := r.byPath[e.path]
	if s == nil {
		s = &summary{}
		r.byPath[e.path] = s
	}
	for _, s := range []*summary{s, &r.byHour[e.hour%24]} {
		s.hits++
		s.bytes += e.bytes
		if e.status >= 400 {
			s.errors++
		}
		s.times = append(s.times, e.millis)
	}
	r.hosts[e.host]++
}

func (s *summary) percentile(p float64) float64 {
	if len(s.times) == 0 {
		return 0
	}
	sort.Float64s(s.times)
	return s.times[int(p*float64(len(s.times)-1))]
}

func (r *report) busiest() (string, float64) {
	best, slow := "", 0.0
	for path, s := range r.byPath {
		if v := s.percentile(0.95); v > slow || v == slow && path < best {
			best, slow = path, v
		}
	}
	return best, slow
}

func main() {
	repaired = len(os.Args) > 1 && os.Args[1] == "repaired"
	r := &report{byPath: map[string]*summary{}, hosts: map[string]int{}}
	bad := 0
	in := bufio.NewScanner(bytes.NewReader(makeLog(550000)))
	var e entry
	for in.Scan() {
		if parseEntry(in.Text(), &e) != nil {
			bad++
			continue
		}
		r.add(&e)
	}
	path, slow := r.busiest()
	noon := r.byHour[12].percentile(0.5)
	fmt.Printf("%d hosts, %d bad, slowest %s %.3f, noon %.3f\n", len(r.hosts), bad, path, slow, noon)
}
