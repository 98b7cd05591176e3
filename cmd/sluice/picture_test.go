package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The picture of imports is in a document, between these lines.
const (
	pictureFile  = "../../docs/architecture.md"
	pictureBegin = "<!-- begin:imports -->\n```\n"
	pictureEnd   = "```\n<!-- end:imports -->"
	pictureWidth = 120
)

// TestPictureOfImports compares the picture in docs/architecture.md with layers. -update writes it.
func TestPictureOfImports(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(pictureFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(document), pictureBegin)
	drawn, after, ends := strings.Cut(rest, pictureEnd)
	if !begins || !ends {
		t.Fatalf("%s has no picture between its markers", pictureFile)
	}
	want := picture(layers)
	if drawn == want {
		return
	}
	if !*update {
		t.Fatalf("the picture in %s is not that of layers: go test ./cmd/sluice -run %s -update", pictureFile, t.Name())
	}
	if err := os.WriteFile(pictureFile, []byte(before+pictureBegin+want+pictureEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// picture draws packages by floors, the highest first. A package is one floor above the highest that it may import.
func picture(imports map[string][]string) string {
	floors := map[int][]string{}
	top := 0
	for _, dir := range slices.Sorted(maps.Keys(imports)) {
		n := floorOf(imports, dir)
		floors[n] = append(floors[n], dir)
		top = max(top, n)
	}
	var text strings.Builder
	for n := top; n > 0; n-- {
		for _, dir := range floors[n] {
			text.WriteString(line(n, dir, slices.Sorted(slices.Values(imports[dir]))))
		}
	}
	first := "0  "
	text.WriteString(first + strings.TrimLeft(wrap(strings.Repeat(" ", len(first)), floors[0]), " "))
	return text.String()
}

// floorOf returns the longest way down from a package. TestLayersHaveNoCircle says that there is one.
func floorOf(imports map[string][]string, dir string) int {
	floor := 0
	for _, below := range imports[dir] {
		floor = max(floor, floorOf(imports, below)+1)
	}
	return floor
}

// line names a package behind its floor and, behind it, what it may import.
func line(floor int, dir string, imports []string) string {
	indent := fmt.Sprintf("%d  %-18s -> ", floor, dir)
	return indent + strings.TrimLeft(wrap(strings.Repeat(" ", len(indent)), imports), " ")
}

// wrap returns words in lines of pictureWidth at most, each behind the indent.
func wrap(indent string, words []string) string {
	var text strings.Builder
	row := indent
	for i, word := range words {
		if i > 0 && len(row)+1+len(word) > pictureWidth {
			text.WriteString(strings.TrimRight(row, " ") + "\n")
			row = indent
		}
		if row != indent {
			row += " "
		}
		row += word
	}
	return text.String() + row + "\n"
}

func TestPictureHasFloors(t *testing.T) {
	t.Parallel()
	got := picture(map[string][]string{"top": {"left", "leaf"}, "left": {"leaf"}, "leaf": {}, "other": {}})
	want := "2  top                -> leaf left\n1  left               -> leaf\n0  leaf other\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
