// entries: the pattern of an entry is compiled for each line; repaired, once. newest_entries [repaired]
package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

const pattern = `^(\d+)-(\d+) ([a-z]+): (GET|PUT|POST|DELETE) (/[a-z/]*) ([a-z ]+)$`

var (
	repaired = len(os.Args) > 1
	compiled = regexp.MustCompile(pattern)
)

type entry struct{ user, path string }

//go:noinline
func parseEntry(line string) (entry, bool) {
	expression := compiled
	if !repaired {
		expression = regexp.MustCompile(pattern)
	}
	found := expression.FindStringSubmatch(line)
	if found == nil {
		return entry{}, false
	}
	return entry{user: found[3], path: found[5]}, true
}

//go:noinline
func countPaths(seen map[string]int, one entry) {
	for _, part := range strings.Split(one.path, "/") {
		seen[part]++
	}
}

func main() {
	seen := map[string]int{}
	users := []string{"anna", "bert", "carla", "dora"}
	for number := 0; number < 60000; number++ {
		line := fmt.Sprintf("%d-%d %s: GET /shop/items/%s all is well", number, number%60, users[number%4], users[number%3])
		if one, known := parseEntry(line); known {
			countPaths(seen, one)
		}
	}
	fmt.Println(len(seen), seen["items"])
}
