// mails: a pattern is compiled for each address; repaired, once. further_mails [repaired]
package main

import (
	"fmt"
	"os"
	"regexp"
)

const pattern = `^[a-z0-9._]+@([a-z0-9-]+\.)+[a-z]{2,6}$`

var repaired = len(os.Args) > 1
var compiled = regexp.MustCompile(pattern)

//go:noinline
func isAddress(text string) bool {
	if repaired {
		return compiled.MatchString(text)
	}
	return regexp.MustCompile(pattern).MatchString(text)
}

//go:noinline
func makeAddress(number int) string {
	sum := uint64(number)
	for i := uint64(0); i < 800; i++ {
		sum = 0xfedcba9876543210/(sum|1) + i
	}
	return fmt.Sprintf("user.%d@host-%d.example.org", sum%1000, number%100)
}

func main() {
	good := 0
	for number := 0; number < 60000; number++ {
		if isAddress(makeAddress(number)) {
			good++
		}
	}
	fmt.Println(good)
}
