package main

import (
	"fmt"
	"maps"
	"os"
	"path"
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
// Those of a floor that may import the same share a line.
func picture(imports map[string][]string) string {
	lines := map[int]map[string][]string{} // by floor, and by what may be imported
	for _, dir := range slices.Sorted(maps.Keys(imports)) {
		n := floorOf(imports, dir)
		if lines[n] == nil {
			lines[n] = map[string][]string{}
		}
		below := braces(slices.Sorted(slices.Values(imports[dir])))
		lines[n][below] = append(lines[n][below], dir)
	}
	var text strings.Builder
	for n := len(lines) - 1; n >= 0; n-- {
		var floor []string
		for below, dirs := range lines[n] {
			floor = append(floor, strings.TrimSuffix(braces(dirs)+" -> "+below, " -> "))
		}
		slices.Sort(floor)
		for _, line := range floor {
			text.WriteString(wrap(fmt.Sprintf("%d  ", n), "       ", strings.Fields(line)))
		}
	}
	return text.String()
}

// braces writes names of one folder as folder/{a b}, in the order of the first of each.
func braces(names []string) string {
	var parts []string
	at := map[string]int{} // the part of a folder
	for _, name := range names {
		folder, base := path.Split(name)
		part, again := at[folder]
		switch {
		case folder == "" || !again:
			at[folder] = len(parts)
			parts = append(parts, name)
		case strings.HasSuffix(parts[part], "}"):
			parts[part] = strings.TrimSuffix(parts[part], "}") + " " + base + "}"
		default:
			parts[part] = folder + "{" + path.Base(parts[part]) + " " + base + "}"
		}
	}
	return strings.Join(parts, " ")
}

// floorOf returns the longest way down from a package. TestLayersHaveNoCircle says that there is one.
func floorOf(imports map[string][]string, dir string) int {
	floor := 0
	for _, below := range imports[dir] {
		floor = max(floor, floorOf(imports, below)+1)
	}
	return floor
}

// wrap returns words in lines of pictureWidth at most, the first behind one indent and the others behind another.
func wrap(first, indent string, words []string) string {
	var text strings.Builder
	row := first + words[0]
	for _, word := range words[1:] {
		if len(row)+1+len(word) > pictureWidth {
			text.WriteString(row + "\n")
			row = indent + word
			continue
		}
		row += " " + word
	}
	return text.String() + row + "\n"
}

func TestPictureHasFloors(t *testing.T) {
	t.Parallel()
	got := picture(map[string][]string{
		"top": {"in/left", "in/right", "leaf"}, "in/left": {"leaf"}, "in/right": {"leaf"}, "leaf": {}, "other": {}, "leaf/a": {}, "leaf/b": {},
	})
	want := "2  top -> in/{left right} leaf\n1  in/{left right} -> leaf\n0  leaf leaf/{a b} other\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
