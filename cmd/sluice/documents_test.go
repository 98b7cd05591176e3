package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
)

// readmeLines is what somebody reads who decides whether to use Sluice.
const readmeLines = 110

const repository = "../../"

// documentNamed returns the text of a document of the repository.
func documentNamed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(repository + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The README is short, and its commands and its configuration are ones that exist.
func TestReadme(t *testing.T) {
	t.Parallel()
	text := documentNamed(t, "README.md")
	if n := strings.Count(text, "\n"); n > readmeLines {
		t.Errorf("README.md has %d lines, at most %d: detail belongs into docs", n, readmeLines)
	}
	blocks := regexp.MustCompile("(?s)\n```([a-z]*)\n(.*?)\n```").FindAllStringSubmatch(text, -1)
	commands, configurations := 0, 0
	for _, block := range blocks {
		if block[1] == "yaml" {
			configurations++
			checkConfiguration(t, block[2])
			continue
		}
		for line := range strings.Lines(block[2]) {
			line, _, _ = strings.Cut(line, "#")
			if args, ok := strings.CutPrefix(line, "bin/sluice "); ok {
				commands++
				checkCommand(t, strings.Fields(args))
			}
			if target, ok := strings.CutPrefix(line, "make "); ok {
				commands++
				if !strings.Contains(documentNamed(t, "Makefile"), "\n"+strings.TrimSpace(target)+":") {
					t.Errorf("README.md: there is no make %s", target)
				}
			}
		}
	}
	if commands < 4 || configurations != 1 {
		t.Errorf("README.md: %d commands, %d configurations", commands, configurations)
	}
}

// checkCommand fails where sluice has no such command or flag.
func checkCommand(t *testing.T, args []string) {
	t.Helper()
	command, rest, err := newRoot().Find(args)
	if err == nil {
		err = command.ParseFlags(rest)
	}
	if err != nil || command.Name() != args[0] {
		t.Errorf("sluice %s: %v", strings.Join(args, " "), err)
	}
}

// checkConfiguration fails where a file of the configuration has a key that does not exist.
func checkConfiguration(t *testing.T, text string) {
	t.Helper()
	var groups map[string]map[string]any
	if err := yaml.Unmarshal([]byte(text), &groups); err != nil {
		t.Error(err)
	}
	for group, values := range groups {
		for name := range values {
			if config.KeyByName(group+"."+name) == nil {
				t.Errorf("%s.%s is no key", group, name)
			}
		}
	}
}

// What the README and the page behind it name as a key or as a metric is one.
func TestDocumentsNameWhatExists(t *testing.T) {
	t.Parallel()
	metrics := documentNamed(t, "docs/metrics.md")
	code := regexp.MustCompile("`([a-z_]+\\.[a-z_]+)`")
	metric := regexp.MustCompile(`\bdsql_[a-z_]+`)
	for _, document := range []string{"README.md", "docs/clients.md"} {
		text := documentNamed(t, document)
		for _, match := range code.FindAllStringSubmatch(text, -1) {
			if config.KeyByName(match[1]) == nil && !slices.Contains([]string{"sluice.yaml", "userlist.txt"}, match[1]) {
				t.Errorf("%s: %s is no key", document, match[1])
			}
		}
		for _, name := range metric.FindAllString(text, -1) {
			if !strings.Contains(metrics, "| `"+name+"` |") {
				t.Errorf("%s: %s is no metric", document, name)
			}
		}
	}
}

// Links from one document to another lead to a file that is there, and to a heading of it.
func TestLinksBetweenDocuments(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	found := 0
	for _, document := range allDocuments(t) {
		for _, match := range link.FindAllStringSubmatch(documentNamed(t, document), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			found++
			file := filepath.Join(filepath.Dir(document), target)
			if target == "" {
				file = document
			}
			if _, err := os.Stat(repository + file); err != nil {
				t.Errorf("%s: %s is not there", document, match[1])
			} else if anchor != "" && !slices.Contains(anchors(documentNamed(t, file)), anchor) {
				t.Errorf("%s: %s has no such heading", document, match[1])
			}
		}
	}
	if found == 0 {
		t.Error("no link found")
	}
}

// allDocuments returns the names of the documents: those of the top folder, and all below docs.
func allDocuments(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(repository + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(repository+"docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		names[i] = strings.TrimPrefix(filepath.ToSlash(name), repository)
	}
	return names
}

// anchors returns what the headings of a document are linked by.
func anchors(text string) []string {
	var all []string
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		title := dropped.ReplaceAllString(strings.ToLower(match[1]), "")
		all = append(all, strings.ReplaceAll(strings.TrimSpace(title), " ", "-"))
	}
	return all
}
