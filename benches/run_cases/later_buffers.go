// buffers: for each message, memory is asked for anew; repaired, it is used again. later_buffers [repaired]
package main

import (
	"fmt"
	"os"
)

var repaired = len(os.Args) > 1
var kept = make([]byte, 1<<20)

//go:noinline
func checksum(data []byte) uint64 {
	sum := uint64(5381)
	for i := 0; i < len(data); i += 16 {
		sum = sum*33 ^ uint64(data[i])
	}
	return sum
}

//go:noinline
func packMessage(number int) []byte {
	room := kept
	if !repaired {
		room = make([]byte, 1<<20)
	}
	for i := 0; i < len(room); i += 64 {
		room[i] = byte(i + number)
	}
	return room
}

func main() {
	sum := uint64(0)
	var last [16][]byte
	for number := 0; number < 6000; number++ {
		message := packMessage(number)
		last[number%16] = message
		sum ^= checksum(message)
	}
	fmt.Println(sum, len(last))
}
