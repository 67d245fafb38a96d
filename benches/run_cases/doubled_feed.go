// feed: quotes of an exchange are handed over one by one to those that sum them up; repaired, 500 at a time; doubled, two at a time.
// doubled_feed [repaired | doubled]
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
)

const (
	quotes  = 4_500_000
	symbols = 64
)

type quote struct {
	symbol int
	cents  int64
	pieces int64
	tick   int
}

type candle struct {
	open, high, low, close int64
	pieces                 int64
}

type book struct {
	names   []string
	candles []candle
	done    map[string][]candle
}

func newBook() *book {
	names := make([]string, symbols)
	for i := range names {
		names[i] = fmt.Sprintf("%c%c%02d", 'A'+i%26, 'Z'-i%17, i)
	}
	return &book{names: names, candles: make([]candle, symbols), done: map[string][]candle{}}
}

//go:noinline
func writeLine(line []byte, number int) []byte {
	seed := uint32(number) * 2654435761
	line = strconv.AppendInt(line[:0], int64(seed>>8%symbols), 10)
	line = append(line, ' ')
	line = strconv.AppendInt(line, int64(10_000+seed>>20), 10)
	line = append(line, ' ')
	return strconv.AppendInt(line, int64(seed>>4&255)+1, 10)
}

//go:noinline
func parseLine(line []byte, tick int) (quote, bool) {
	var numbers [3]int64
	at := 0
	for _, letter := range line {
		switch {
		case letter == ' ':
			at++
			if at == len(numbers) {
				return quote{}, false
			}
		case letter >= '0' && letter <= '9':
			numbers[at] = numbers[at]*10 + int64(letter-'0')
		default:
			return quote{}, false
		}
	}
	return quote{int(numbers[0]) % symbols, numbers[1], numbers[2], tick}, at == 2
}

//go:noinline
func publishQuotes(to chan<- []quote, batch []quote) {
	to <- batch
}

//go:noinline
func takeQuotes(from <-chan []quote) ([]quote, bool) {
	batch, more := <-from
	return batch, more
}

func readFeed(to chan<- []quote, atOnce int) {
	line := make([]byte, 0, 64)
	// A batch is used again when the one after it was taken.
	batches := [3][]quote{}
	for number, turn := 0, 0; number < quotes; turn++ {
		batch := batches[turn%len(batches)][:0]
		for len(batch) < atOnce && number < quotes {
			line = writeLine(line, number)
			if one, good := parseLine(line, number); good {
				batch = append(batch, one)
			}
			number++
		}
		batches[turn%len(batches)] = batch
		publishQuotes(to, batch)
	}
	close(to)
}

//go:noinline
func (to *book) addQuote(one quote) {
	now := &to.candles[one.symbol]
	if now.pieces == 0 {
		now.open, now.high, now.low = one.cents, one.cents, one.cents
	}
	now.high = max(now.high, one.cents)
	now.low = min(now.low, one.cents)
	now.close = one.cents
	now.pieces += one.pieces
}

//go:noinline
func (to *book) closeCandles() {
	for symbol, now := range to.candles {
		if now.pieces > 0 {
			to.done[to.names[symbol]] = append(to.done[to.names[symbol]], now)
		}
		to.candles[symbol] = candle{}
	}
}

//go:noinline
func (to *book) report() string {
	names := make([]string, 0, len(to.done))
	for name := range to.done {
		names = append(names, name)
	}
	sort.Strings(names)
	var text strings.Builder
	for _, name := range names {
		var moved, pieces int64
		for _, each := range to.done[name] {
			moved += each.high - each.low + each.close - each.open
			pieces += each.pieces
		}
		fmt.Fprintf(&text, "%s: %d candles, moved %d, %d pieces\n", name, len(to.done[name]), moved, pieces)
	}
	return text.String()
}

func main() {
	atOnce := 1
	if len(os.Args) > 1 {
		atOnce = map[string]int{"repaired": 500, "doubled": 2}[os.Args[1]]
	}
	feed := make(chan []quote)
	go readFeed(feed, atOnce)
	all := newBook()
	for {
		batch, more := takeQuotes(feed)
		if !more {
			break
		}
		for _, one := range batch {
			all.addQuote(one)
			if one.tick%2000 == 1999 {
				all.closeCandles()
			}
		}
	}
	fmt.Print(all.report())
}
