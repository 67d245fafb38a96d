// syncing: each message is made safe before the next one is taken; repaired, a hundred at once. unseen_syncing [repaired]
package main

import (
	"encoding/json"
	"os"
)

type message struct {
	Number int      `json:"number"`
	Words  []string `json:"words"`
}

var repaired = len(os.Args) > 1

//go:noinline
func storeMessage(file *os.File, each message) {
	text, err := json.Marshal(each)
	if err != nil {
		panic(err)
	}
	if _, err := file.Write(append(text, '\n')); err != nil {
		panic(err)
	}
	if !repaired || each.Number%100 == 99 {
		if err := file.Sync(); err != nil {
			panic(err)
		}
	}
}

func main() {
	file, err := os.CreateTemp("/var/tmp", "run-case-")
	if err != nil {
		panic(err)
	}
	os.Remove(file.Name())
	messages := make(chan message)
	go func() {
		for i := 0; i < 3000; i++ {
			messages <- message{i, make([]string, 2000)}
		}
		close(messages)
	}()
	for each := range messages {
		storeMessage(file, each)
	}
}
