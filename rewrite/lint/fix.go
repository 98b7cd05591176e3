package lint

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// FindingStatus says whether Sluice or FixFile has handled a finding of lint, or a person must act on it.
type FindingStatus uint8

const (
	// Handled means that Sluice changes the statement when a client sends it, and that its meaning stays the same.
	Handled FindingStatus = iota
	// People means that a person should check the statement. For a finding of severity Warning, Sluice changes the
	// statement when a client sends it, but the effect differs.
	People
	// Fixed means that FixFile has replaced the statement by a text that DSQL accepts.
	Fixed
)

func (s FindingStatus) String() string { return [...]string{"handled", "people", "fixed"}[s] }

// StatusOf returns the status of a finding about a statement that FixFile has not changed.
func StatusOf(f *finding.Finding) FindingStatus {
	if f.Severity > finding.Info {
		return People
	}
	return Handled
}

// PlacedFinding is a finding with its line in a file.
type PlacedFinding struct {
	finding.Finding
	Line   int // counted from 1, in the fixed text if FixFile made one
	Status FindingStatus
}

// FileResult holds what LintFile or FixFile found in one SQL file. After FixFile it also holds the fixed text.
type FileResult struct {
	Statements int
	Findings   []PlacedFinding
	// Text is the file's text with every statement in the form that Sluice sends. Only FixFile sets Text.
	Text string
}

// errNotSame is the error if the fixed text, read again, has other statements than FixFile intended. FixFile then
// leaves the file unchanged.
var errNotSame = errors.New("what was made of it does not read as the statements that were meant")

// errBackslashes is the error for a file that turns standard_conforming_strings off. A backslash may then precede a
// quote, so FixFile cannot find the ends of statements.
var errBackslashes = errors.New("it switches standard_conforming_strings off: where its strings end cannot be told")

var backslashes = regexp.MustCompile(`(?i)standard_conforming_strings["']?\s*(?:=|to\b|,)\s*'?(?:of|f|n|0)`)

// LintFile lints a file as the file's migration tool would run it. l knows the tables of the files that it has read
// before. LintFile does not change the transaction of l.
func LintFile(l *rewrite.Linter, source SourceFile) FileResult {
	linted, _ := readFile(l, &source, nil)
	return linted
}

// FixFile lints as LintFile does, and returns the file as Sluice would send it. A comment precedes each statement that
// FixFile has changed, or that a person must change. All other text stays. A fixed file stays as it is.
func FixFile(l *rewrite.Linter, source SourceFile) (FileResult, error) {
	if backslashes.MatchString(source.Text) {
		return FileResult{}, errBackslashes
	}
	f := &fixer{text: source.Text}
	linted, meant := readFile(l.WithIdentities(), &source, f)
	linted.Text = f.finish()
	if linted.Text != source.Text && !slices.Equal(statementsOf(SourceFile{Path: source.Path, Text: linted.Text, ReadSibling: source.ReadSibling}), meant) {
		return FileResult{}, errNotSame
	}
	return linted, nil
}

// statementsOf returns the texts of the statements in an SQL file.
func statementsOf(source SourceFile) []string {
	var all []string
	for _, p := range source.splitParts() {
		for s := range parse.SplitScript(source.Text[p.from:p.to]) {
			all = append(all, s.SQL)
		}
	}
	return all
}

// readFile lints a file. If f is not nil, f writes the fixed text, and meant are the statements that the fixed text
// should have.
func readFile(l *rewrite.Linter, source *SourceFile, f *fixer) (linted FileResult, meant []string) {
	var session *rewrite.Linter
	line, counted := 1, 0
	for _, p := range source.splitParts() {
		line += strings.Count(source.Text[counted:p.from], "\n")
		counted = p.from
		if p.begins || session == nil {
			session = l.NewSession(p.how.transaction())
		}
		for s := range parse.SplitScript(source.Text[p.from:p.to]) {
			findings, sent := session.LintText(s.SQL)
			s.At, s.Gap, s.Line = s.At+p.from, s.Gap+p.from, s.Line+line-1
			if f == nil {
				sent = ""
			}
			placed := locateFindings(s, findings, sent != "")
			if f != nil {
				added := f.writeStatement(s, sent, placed)
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

// indexWritten is the action in a finding about a CREATE INDEX that FixFile has rewritten. When a client sends CREATE
// INDEX, Sluice rewrites it and awaits the job. Sluice does not await the job of a CREATE INDEX ASYNC from a file.
const indexWritten = "rewritten to CREATE INDEX ASYNC, and nobody waits for its job, as Sluice does for that of CREATE INDEX"

// locateFindings returns the findings of a statement with their lines in the file. changed says that FixFile replaces
// the statement.
func locateFindings(s parse.ScriptStatement, findings []finding.Finding, changed bool) []PlacedFinding {
	placed := make([]PlacedFinding, 0, len(findings))
	line, counted := s.Line, 0
	slices.SortStableFunc(findings, func(a, b finding.Finding) int { return a.At - b.At })
	for _, f := range findings {
		at := min(f.At, len(s.SQL))
		line += strings.Count(s.SQL[counted:at], "\n")
		counted = at
		p := PlacedFinding{Finding: f, Line: line, Status: StatusOf(&f)}
		if changed && f.Rule != finding.ByteaRule {
			switch f.Outcome {
			case finding.Rewritten:
				p.Status = Fixed
				if f.Feature == finding.CreateIndex {
					p.Severity, p.Action, p.Remedy = finding.Warning, indexWritten, finding.Remedy(finding.CreateIndex)
				}
			case finding.Answered:
				p.Status, p.Action = Fixed, f.Action+"; "+rewrite.Nothing+" stands in its place"
			}
		}
		placed = append(placed, p)
	}
	return placed
}

// fixer writes the fixed text of a file to out.
type fixer struct {
	text  string
	out   strings.Builder
	done  int // the number of bytes of text that are written
	added int // the number of lines that writeStatement has added so far
}

// writeStatement writes the file's text up to the end of a statement, and comments before the statement. If sent is not
// "", it replaces the statement. added is the number of lines that the comments and sent add.
func (f *fixer) writeStatement(s parse.ScriptStatement, sent string, findings []PlacedFinding) (added int) {
	gap := f.text[s.Gap:s.At]
	begin, alone := lastLineStart(gap)
	begin += s.Gap
	if alone = alone || s.Gap == parse.BOMLength(f.text) && begin == s.Gap; !alone || strings.Trim(f.text[begin:s.At], parse.Blanks) != "" {
		begin, alone = s.At, false
	}
	f.copyTo(begin)
	for _, note := range fixComments(s, gap, findings) {
		if alone {
			f.out.WriteString(f.text[begin:s.At] + "-- " + note + lineEnding(f.text, begin))
			f.added++
		} else {
			f.out.WriteString("/* " + note + " */ ")
		}
	}
	f.copyTo(s.At)
	if sent != "" {
		f.out.WriteString(sent)
		f.done = s.At + len(s.SQL)
	}
	return f.added
}

// copyTo writes the unchanged text of the file up to the given byte offset.
func (f *fixer) copyTo(to int) {
	f.out.WriteString(f.text[f.done:to])
	f.done = to
}

// finish writes the rest of the file and returns the file's new text.
func (f *fixer) finish() string {
	f.copyTo(len(f.text))
	return f.out.String()
}

// noteMark starts every comment that FixFile writes. A second FixFile recognizes the comment by noteMark and the
// feature that follows it.
const noteMark = "sluice: "

// fixComments returns the comments to write before a statement, one for each feature. gap is the text before the
// statement. A feature that gap already names gets no second comment.
func fixComments(s parse.ScriptStatement, gap string, findings []PlacedFinding) []string {
	if s.Open {
		return nil
	}
	var all []string
	said := map[finding.Feature]bool{}
	for i := range findings {
		f := &findings[i]
		mark := noteMark + string(f.Feature) + ": "
		if said[f.Feature] || f.Status == Handled || f.Feature == finding.Syntax || f.Feature == finding.Unread || strings.Contains(gap, mark) {
			continue
		}
		said[f.Feature] = true
		all = append(all, mark+f.commentText())
	}
	return all
}

// commentText returns the text of FixFile's comment for a finding. The text has no semicolon, because some tools end a
// statement at a semicolon even in comments.
func (p *PlacedFinding) commentText() string {
	note := p.Action + " (" + p.Reason + ")"
	if p.Status == People {
		note = p.Reason
		if p.Action != finding.Passes {
			note += " (" + p.Action + ")"
		}
		if p.Remedy != "" {
			note += ". To do: " + p.Remedy
		}
	}
	return strings.ReplaceAll(note, ";", " -")
}

// lastLineStart returns the start of the last line of gap, the text before a statement. ok is false if gap has one
// line.
func lastLineStart(gap string) (begin int, ok bool) {
	begin = strings.LastIndexAny(gap, "\r\n") + 1
	return begin, begin > 0
}

// lineEnding returns the line end of the line before the offset begin, or the text's first line end if there is none.
func lineEnding(text string, begin int) string {
	if begin == 0 || begin == parse.BOMLength(text) {
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
