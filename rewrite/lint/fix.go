package lint

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Status is who deals with a finding.
type Status uint8

const (
	// Handled: Sluice does, when the statement is sent, and it means the same.
	Handled Status = iota
	// People: somebody should look. With Warning Sluice does it, but something differs.
	People
	// Fixed: the file has another text now, which DSQL takes.
	Fixed
)

func (s Status) String() string { return [...]string{"handled", "people", "fixed"}[s] }

// StatusOf is that of a finding in a text that nobody changes.
func StatusOf(f *rewrite.Finding) Status {
	if f.Severity > rewrite.Info {
		return People
	}
	return Handled
}

// Placed is a finding of a file.
type Placed struct {
	rewrite.Finding
	Line   int // from 1; of the fixed text, where there is one
	Status Status
}

// Linted is what there is to say of a file.
type Linted struct {
	Statements int
	Findings   []Placed
	// Text is the file with every statement as Sluice sends it, from Fix.
	Text string
}

// errNotSame is a bug of ours that spares the file.
var errNotSame = errors.New("what was made of it does not read as the statements that were meant")

// errBackslashes spares a file in which a quote may stand behind a backslash.
var errBackslashes = errors.New("it switches standard_conforming_strings off: where its strings end cannot be told")

var backslashes = regexp.MustCompile(`(?i)standard_conforming_strings["']?\s*(?:=|to\b|,)\s*'?(?:of|f|n|0)`)

// File reads a file as the tool would run it that it is for, with the tables of the files
// that l has read before. The Linter's own transaction is not concerned.
func File(l *rewrite.Linter, source Source) Linted {
	linted, _ := read(l, &source, nil)
	return linted
}

// Fix is File, and writes the file as Sluice would send it, with a comment in front of each
// statement that it has changed, or leaves to people. All other bytes stay. What is fixed
// has nothing left to fix: Fix of it changes nothing.
func Fix(l *rewrite.Linter, source Source) (Linted, error) {
	if backslashes.MatchString(source.Text) {
		return Linted{}, errBackslashes
	}
	f := &fixer{text: source.Text}
	linted, meant := read(l.WithIdentities(), &source, f)
	linted.Text = f.end()
	if linted.Text != source.Text && !slices.Equal(statementsOf(Source{Path: source.Path, Text: linted.Text, Beside: source.Beside}), meant) {
		return Linted{}, errNotSame
	}
	return linted, nil
}

// statementsOf are the statements of a file.
func statementsOf(source Source) []string {
	var all []string
	for _, p := range source.passages() {
		for s := range parse.Script(source.Text[p.from:p.to]) {
			all = append(all, s.SQL)
		}
	}
	return all
}

// read reads a file, and has f write it where that is not nil. meant are the statements
// that come of it.
func read(l *rewrite.Linter, source *Source, f *fixer) (linted Linted, meant []string) {
	var session *rewrite.Linter
	line, counted := 1, 0
	for _, p := range source.passages() {
		line += strings.Count(source.Text[counted:p.from], "\n")
		counted = p.from
		if p.begins || session == nil {
			session = l.Session(p.how.transaction())
		}
		for s := range parse.Script(source.Text[p.from:p.to]) {
			findings, sent := session.ReadText(s.SQL)
			s.At, s.Gap, s.Line = s.At+p.from, s.Gap+p.from, s.Line+line-1
			if f == nil {
				sent = ""
			}
			placed := place(s, findings, sent != "")
			if f != nil {
				added := f.statement(s, sent, placed)
				for i := range placed {
					placed[i].Line += added
				}
			}
			if sent == "" {
				sent = s.SQL
			}
			linted.Statements++
			linted.Findings = append(linted.Findings, placed...)
			meant = append(meant, sent)
		}
	}
	return linted, meant
}

// indexWritten differs from what is sent: Sluice waits for the job of its own ASYNC only.
const indexWritten = "rewritten to CREATE INDEX ASYNC, and nobody waits for its job, as Sluice does for that of CREATE INDEX"

// place puts the findings of a statement into its file; changed: the file gets another text.
func place(s parse.Snippet, findings []rewrite.Finding, changed bool) []Placed {
	placed := make([]Placed, 0, len(findings))
	line, counted := s.Line, 0
	slices.SortStableFunc(findings, func(a, b rewrite.Finding) int { return a.At - b.At })
	for _, f := range findings {
		at := min(f.At, len(s.SQL))
		line += strings.Count(s.SQL[counted:at], "\n")
		counted = at
		p := Placed{Finding: f, Line: line, Status: StatusOf(&f)}
		if changed && f.Rule != rewrite.ByteaRule {
			switch f.Outcome {
			case rewrite.Rewritten:
				p.Status = Fixed
				if f.Feature == rewrite.CreateIndex {
					p.Severity, p.Action, p.Remedy = rewrite.Warning, indexWritten, rewrite.Remedy(rewrite.CreateIndex)
				}
			case rewrite.Answered:
				p.Status, p.Action = Fixed, f.Action+"; "+rewrite.Nothing+" stands in its place"
			}
		}
		placed = append(placed, p)
	}
	return placed
}

// fixer writes a file anew.
type fixer struct {
	text  string
	out   strings.Builder
	done  int // bytes of text that are written
	added int // lines so far
}

// statement writes up to the end of a statement, sent in its place where it is not "", with
// comments in front. added is how many lines there are more than in the text.
func (f *fixer) statement(s parse.Snippet, sent string, findings []Placed) (added int) {
	gap := f.text[s.Gap:s.At]
	begin, alone := lineStart(gap)
	begin += s.Gap
	if alone = alone || s.Gap == parse.MarkBytes(f.text) && begin == s.Gap; !alone || strings.Trim(f.text[begin:s.At], parse.Blanks) != "" {
		begin, alone = s.At, false
	}
	f.copy(begin)
	for _, note := range notes(s, gap, findings) {
		if alone {
			f.out.WriteString(f.text[begin:s.At] + "-- " + note + lineEnd(f.text, begin))
			f.added++
		} else {
			f.out.WriteString("/* " + note + " */ ")
		}
	}
	f.copy(s.At)
	if sent != "" {
		f.out.WriteString(sent)
		f.done = s.At + len(s.SQL)
	}
	return f.added
}

// copy writes the text as it is up to a byte.
func (f *fixer) copy(to int) {
	f.out.WriteString(f.text[f.done:to])
	f.done = to
}

// end writes the rest.
func (f *fixer) end() string {
	f.copy(len(f.text))
	return f.out.String()
}

// noteMark begins every comment that Fix writes. By it and the feature behind it the next
// Fix knows that a comment is there already.
const noteMark = "sluice: "

// notes are the comments in front of a statement, one for each feature that the gap, which
// holds blanks and comments, does not name already.
func notes(s parse.Snippet, gap string, findings []Placed) []string {
	if s.Open {
		return nil
	}
	var all []string
	said := map[rewrite.Feature]bool{}
	for i := range findings {
		f := &findings[i]
		mark := noteMark + string(f.Feature) + ": "
		if said[f.Feature] || f.Status == Handled || f.Feature == rewrite.Syntax || f.Feature == rewrite.Unread || strings.Contains(gap, mark) {
			continue
		}
		said[f.Feature] = true
		all = append(all, mark+f.note())
	}
	return all
}

// note is what a comment says of a finding. A semicolon is where some tools split a file,
// comments or not.
func (p *Placed) note() string {
	note := p.Action + " (" + p.Reason + ")"
	if p.Status == People {
		note = p.Reason
		if p.Action != rewrite.Passes {
			note += " (" + p.Action + ")"
		}
		if p.Remedy != "" {
			note += ". To do: " + p.Remedy
		}
	}
	return strings.ReplaceAll(note, ";", " -")
}

// lineStart is where the last line of a gap begins, if it is not the first.
func lineStart(gap string) (begin int, ok bool) {
	begin = strings.LastIndexAny(gap, "\r\n") + 1
	return begin, begin > 0
}

// lineEnd is how lines end in a text: as the one before that begin, or as the first.
func lineEnd(text string, begin int) string {
	if begin == 0 || begin == parse.MarkBytes(text) {
		if i := strings.IndexAny(text, "\r\n"); i >= 0 {
			begin = i + 1
			if strings.HasPrefix(text[i:], "\r\n") {
				begin++
			}
		}
	}
	switch {
	case strings.HasSuffix(text[:begin], "\r\n"):
		return "\r\n"
	case strings.HasSuffix(text[:begin], "\r"):
		return "\r"
	}
	return "\n"
}
