package main

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// proseLimits holds the most that the comments of a package and a page of docs may have.
var proseLimits = map[string]int{
	"words":     20,        // riddles among 10,000 words of comments or of a page
	"sentences": 10,        // of a hundred sentences of comments, those of more than sentenceWords words
	"lines":     0,         // comments wider than lineWidth
	"bytes":     12 * 1024, // of a page, except of references
}

const (
	sentenceWords = 22
	lineWidth     = 120
)

// references are pages that a reader searches and does not read from top to bottom.
var references = []string{"docs/configuration.md", "docs/metrics.md", "CHANGELOG.md"}

// riddles are words that stand for a name, or that have a private meaning here. "such as" is none.
var riddles = regexp.MustCompile(`(?i)\b(told|tells? of|kept|stands|anew|what is|who|nobody|such|of its own|in the place of)\b`)

// TestFiguresOfProse holds comments and pages to proseLimits, by a list that works like that of TestFigures.
func TestFiguresOfProse(t *testing.T) {
	t.Parallel()
	got := map[string]figure{}
	for dir, p := range proseOfPackages(t) {
		for name, value := range map[string]int{"words": p.riddleRate(), "sentences": p.longRate(), "lines": p.wide} {
			got[dir+" "+name] = figure{value: value}
		}
	}
	var decisions prose // each is short: they are counted together, and TestDecisions holds their size
	for _, page := range allDocuments(t) {
		text := documentNamed(t, page)
		p := prose{paragraphs: strings.Split(withoutCode(text), "\n\n")}
		if strings.HasPrefix(page, "docs/decisions/") {
			decisions.paragraphs = append(decisions.paragraphs, p.paragraphs...)
			continue
		}
		got[page+" words"] = figure{value: p.riddleRate()}
		if !slices.Contains(references, page) {
			got[page+" bytes"] = figure{value: len(generatedPart.ReplaceAllString(text, ""))}
		}
	}
	got["docs/decisions words"] = figure{value: decisions.riddleRate()}
	ratchet(t, filepath.Join("testdata", "prose.txt"), got, proseLimits)
}

// generatedPart is what a test writes into a page: a reference within the page.
var generatedPart = regexp.MustCompile(`(?s)<!-- begin:\w+ -->.*?<!-- end:\w+ -->`)

// prose is text to judge: paragraphs without code, and the number of lines that are too wide.
type prose struct {
	paragraphs []string
	wide       int
}

// proseOfPackages returns the comments of each package of the product, without those of tests.
func proseOfPackages(t *testing.T) map[string]*prose {
	all := map[string]*prose{}
	for _, file := range sourceFiles(t) {
		if file.test || !isProduct(file.dir) {
			continue
		}
		if all[file.dir] == nil {
			all[file.dir] = &prose{}
		}
		for _, group := range file.syntax.Comments {
			all[file.dir].add(group)
		}
	}
	return all
}

// add adds a comment. Indented lines of a comment are code.
func (p *prose) add(group *ast.CommentGroup) {
	for _, comment := range group.List {
		if utf8.RuneCountInString(comment.Text) > lineWidth {
			p.wide++
		}
	}
	var text strings.Builder
	for line := range strings.Lines(group.Text()) {
		if !strings.HasPrefix(line, "\t") {
			text.WriteString(line)
		}
	}
	p.paragraphs = append(p.paragraphs, strings.Split(text.String(), "\n\n")...)
}

// riddleRate returns the number of riddles among 10,000 words.
func (p *prose) riddleRate() int {
	words, found := 0, 0
	for _, paragraph := range p.paragraphs {
		words += len(strings.Fields(paragraph))
		text := strings.Join(strings.Fields(paragraph), " ")
		found += len(riddles.FindAllString(strings.ReplaceAll(text, "such as", ""), -1))
	}
	return found * 10000 / max(1, words)
}

// longRate returns how many of a hundred sentences are too long.
func (p *prose) longRate() int {
	sentences, long := 0, 0
	for _, paragraph := range p.paragraphs {
		for _, n := range sentenceLengths(paragraph) {
			sentences++
			if n > sentenceWords {
				long++
			}
		}
	}
	return long * 100 / max(1, sentences)
}

var sentenceEnd = regexp.MustCompile(`[.!?][)"]?(\s+|$)`)

// sentenceLengths returns the number of words of each sentence of a paragraph.
func sentenceLengths(paragraph string) (all []int) {
	for _, sentence := range sentenceEnd.Split(paragraph, -1) {
		if n := len(strings.Fields(sentence)); n > 0 {
			all = append(all, n)
		}
	}
	return all
}

var codeOfPage = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

// withoutCode returns a page with X in the place of each piece of code.
func withoutCode(page string) string { return codeOfPage.ReplaceAllString(page, "X") }

func TestProse(t *testing.T) {
	t.Parallel()
	file, err := parseSource("p/f.go", []byte(`package p

// F returns a sum. It is told what is new, such as names.
//
//	who := "nobody"
func F() {}

// G has a line that is far too wide for anybody to read at once, and one sentence of more words than a reader can hold, which is too long.
func G() {}
`))
	if err != nil {
		t.Fatal(err)
	}
	var p prose
	for _, group := range file.syntax.Comments {
		p.add(group)
	}
	if p.wide != 1 || p.longRate() != 33 || p.riddleRate() != 2*10000/43 {
		t.Errorf("%d wide lines, %d of 100 sentences, %d riddles: want 1, 33, 465", p.wide, p.longRate(), p.riddleRate())
	}
	if got := withoutCode("a `b` c\n```\nd\n```\ne"); got != "a X c\nX\ne" {
		t.Errorf("%q", got)
	}
}
