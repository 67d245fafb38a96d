// joining: a page is put together by adding each line to all before it; repaired, by a builder. unseen_joining [repaired]
package main

import (
	"fmt"
	"os"
	"strings"
)

var repaired = len(os.Args) > 1

type row struct {
	name  string
	price float64
}

func formatRow(each row) string {
	return fmt.Sprintf("<tr><td>%-20s</td><td>%8.2f</td></tr>\n", each.name, each.price)
}

//go:noinline
func renderTable(rows []row) string {
	if repaired {
		var page strings.Builder
		for _, each := range rows {
			page.WriteString(formatRow(each))
		}
		return page.String()
	}
	page := ""
	for _, each := range rows {
		page += formatRow(each)
	}
	return page
}

func main() {
	rows := make([]row, 1500)
	for i := range rows {
		rows[i] = row{fmt.Sprintf("article %d", i*7919%1500), float64(i) / 7}
	}
	length := 0
	for page := 0; page < 60; page++ {
		length += len(renderTable(rows))
	}
	fmt.Println(length)
}
