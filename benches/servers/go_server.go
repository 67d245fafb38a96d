// A net/http server with three routes, for load.py.
package main

import (
	"encoding/json"
	"html/template"
	"net/http"
	_ "net/http/pprof"
	"regexp"
	"sort"
	"strconv"
)

type item struct {
	Name  string
	Price float64
}

var data []item
var page = template.Must(template.New("p").Parse(`<ul>{{range .}}<li>{{.Name}} {{.Price}}</li>{{end}}</ul>`))
var word = regexp.MustCompile(`^item [0-9]*7$`)

func sorted(in []item) []item {
	out := append([]item(nil), in...)
	sort.Slice(out, func(a, b int) bool { return out[a].Price > out[b].Price })
	return out
}
func count(in []item) (n int) {
	for _, x := range in {
		if word.MatchString(x.Name) {
			n++
		}
	}
	return
}
func servePage(w http.ResponseWriter, r *http.Request)  { page.Execute(w, data) }
func serveJSON(w http.ResponseWriter, r *http.Request)  { json.NewEncoder(w).Encode(sorted(data)) }
func serveCount(w http.ResponseWriter, r *http.Request) { w.Write([]byte(strconv.Itoa(count(data)))) }
func main() {
	for i := 0; i < 200; i++ {
		data = append(data, item{"item " + strconv.Itoa(i), float64(i) * 1.25})
	}
	http.HandleFunc("/page", servePage)
	http.HandleFunc("/json", serveJSON)
	http.HandleFunc("/count", serveCount)
	http.ListenAndServe("127.0.0.1:5113", nil)
}
