package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	decisionsFolder = "../../docs/decisions/"
	decisionSize    = 2 << 10
)

// A decision is one file of docs/decisions.
type decision struct {
	number, file, date, title, status string
	text                              []byte
}

var (
	decisionName = regexp.MustCompile(`^(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.md$`)
	decisionHead = regexp.MustCompile(`^# (.+)\n\nDate: (\d{4}-\d\d-\d\d)\nStatus: (.+)\n\n`)
	decisionLink = regexp.MustCompile(`decisions/(\d{4}-[a-z0-9-]*\.md)`)
)

// decisions returns all decisions in the order of their numbers.
func decisions(t *testing.T) (all []decision) {
	t.Helper()
	files, err := os.ReadDir(decisionsFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() == "README.md" {
			continue
		}
		name := decisionName.FindStringSubmatch(f.Name())
		if name == nil {
			t.Errorf("docs/decisions/%s: want NNNN-title.md", f.Name())
			continue
		}
		text, err := os.ReadFile(decisionsFolder + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		d := decision{number: name[1], file: f.Name(), text: text}
		if head := decisionHead.FindSubmatch(text); head != nil {
			d.title, d.date, d.status = string(head[1]), string(head[2]), string(head[3])
		}
		all = append(all, d)
	}
	return all
}

// A decision has a title, a date, a status, and the parts Context, Decision and
// Consequences in this order, in at most 2 kB. Numbers are consecutive and follow the dates.
func TestDecisions(t *testing.T) {
	all, titles := decisions(t), map[string]string{}
	for i, d := range all {
		if want := fmt.Sprintf("%04d", i+1); d.number != want {
			t.Errorf("docs/decisions/%s: want number %s", d.file, want)
		}
		if d.title == "" {
			t.Errorf("docs/decisions/%s: want a title, Date: and Status:", d.file)
		}
		if i > 0 && d.date < all[i-1].date {
			t.Errorf("docs/decisions/%s: older than %s", d.file, all[i-1].file)
		}
		if other := titles[d.title]; other != "" {
			t.Errorf("docs/decisions/%s: %s has its title", d.file, other)
		}
		titles[d.title] = d.file
		if len(d.text) > decisionSize {
			t.Errorf("docs/decisions/%s: %d bytes, at most %d", d.file, len(d.text), decisionSize)
		}
		var parts []string
		for line := range strings.Lines(string(d.text)) {
			if part, ok := strings.CutPrefix(line, "## "); ok {
				parts = append(parts, strings.TrimSpace(part))
			}
		}
		if got := strings.Join(parts, ", "); got != "Context, Decision, Consequences" {
			t.Errorf("docs/decisions/%s: has the parts %s", d.file, got)
		}
	}
}

// The index lists every decision: -update writes it.
func TestDecisionsIndex(t *testing.T) {
	var want bytes.Buffer
	want.WriteString("# Decisions\n\nOne file for each decision that binds several packages, or a user. `go test ./cmd/sluice -run TestDecisions -update`\n" +
		"writes this index.\n\n| number | date | decision | status |\n|---|---|---|---|\n")
	for _, d := range decisions(t) {
		fmt.Fprintf(&want, "| %s | %s | [%s](%s) | %s |\n", d.number, d.date, d.title, d.file, d.status)
	}
	index := decisionsFolder + "README.md"
	if got, err := os.ReadFile(index); err == nil && bytes.Equal(got, want.Bytes()) {
		return
	}
	if !*update {
		t.Fatal("docs/decisions/README.md is out of date: go test ./cmd/sluice -run TestDecisions -update")
	}
	if err := os.WriteFile(index, want.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A decision that a document or a comment names is there.
func TestDecisionsNamed(t *testing.T) {
	there := map[string]bool{}
	for _, d := range decisions(t) {
		there[d.file] = true
	}
	err := filepath.WalkDir("../..", func(path string, entry os.DirEntry, err error) error {
		switch ext := filepath.Ext(path); {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git" || entry.Name() == "bin"):
			return filepath.SkipDir
		case entry.IsDir() || ext != ".go" && ext != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, link := range decisionLink.FindAllSubmatch(text, -1) {
			if !there[string(link[1])] {
				t.Errorf("%s names docs/decisions/%s, which is not there", path, link[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
