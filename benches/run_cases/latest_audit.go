// audit: each line of an audit is written by itself; repaired, many together. latest_audit [repaired]
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

type audit struct{ to io.Writer }

//go:noinline
func (one *audit) writeLine(number int, state uint64) {
	fmt.Fprintf(one.to, "booking %d is in state %d\n", number, state%7)
}

//go:noinline
func book(number int) uint64 {
	sum := uint64(number)
	for i := uint64(0); i < 30; i++ {
		sum = 0xfedcba9876543210/(sum|1) + i
	}
	return sum
}

func main() {
	file, err := os.CreateTemp("/var/tmp", "audit-")
	if err != nil {
		panic(err)
	}
	os.Remove(file.Name())
	lines := &audit{to: file}
	if len(os.Args) > 1 {
		buffer := bufio.NewWriter(file)
		defer buffer.Flush()
		lines.to = buffer
	}
	for number := 0; number < 900000; number++ {
		lines.writeLine(number, book(number))
	}
}
