package rewrite

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
)

func TestMeasure(t *testing.T) {
	names := []string{}
	for k := range deep {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		if o := os.Getenv("ONLY"); o != "" && o != k {
			continue
		}
		max := 2000
		if v := os.Getenv("MAXN"); v != "" {
			fmt.Sscan(v, &max)
		}
		n := largest(deep[k], max)
		text := deep[k].text(n)
		d, _ := depthOf([]byte(text), 1<<30)
		fmt.Printf("%s n=%d d=%d ", k, n, d)
		tree, err := parseTree(text)
		for err != nil && strings.HasPrefix(err.Error(), "memory exhausted") {
			n = n * 19 / 20
			text = deep[k].text(n)
			tree, err = parseTree(text)
			d, _ = depthOf([]byte(text), 1<<30)
			fmt.Printf("shrunk n=%d d=%d ", n, d)
		}
		s := ""
		if err != nil {
			s = err.Error()
			s = s[:min(len(s), 50)]
		} else {
			build(text, tree)
		}
		fmt.Println("wire", wireDepth(tree), s)
	}
}

// largest is the most terms that pass the guard, at most 100,000.
func largest(p pump, max int) int {
	const most = 100_000
	passes := func(n int) bool {
		_, why := depthOf([]byte(p.text(n)), max)
		return why == fits
	}
	above := 1
	for above < most && passes(above) {
		above *= 2
	}
	if above >= most && passes(most) {
		return most
	}
	return sort.Search(above, func(n int) bool { return !passes(n + 1) })
}

func wireDepth(m message) int {
	d := 0
	if m.shape == nil {
		return 0
	}
	for c := range m.nodes() {
		d = max(d, wireDepth(c))
	}
	return d + 1
}
