package matrix

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	document = "../../../docs/applications.md"
	begin    = "<!-- begin:matrix -->\n"
	end      = "<!-- end:matrix -->\n"
)

// The document is what would be made of the record: no cell without a test.
func TestDocument(t *testing.T) {
	seen := load(t)
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	want, err := replace(string(text), render(seen))
	if err != nil {
		t.Fatal(err)
	}
	if want != string(text) {
		t.Errorf("%s is not what -update would make of %s", document, seenFile)
	}
	for _, tl := range tools {
		for _, f := range features {
			if r := seen[tl.name]; r == nil || (r.Cells[f.name] != nil) != tl.has(f) {
				t.Errorf("%s: %s is not as the tool's row says", tl.name, f.name)
			}
		}
	}
}

func writeDocument(seen record) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	now, err := replace(string(text), render(seen))
	if err != nil {
		return err
	}
	return os.WriteFile(document, []byte(now), 0o644)
}

// replace puts a table between the marks.
func replace(text, table string) (string, error) {
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("%s lacks its marks", document)
	}
	return before + begin + table + end + after, nil
}

// render is the table, what its columns are, and the reasons.
func render(seen record) string {
	var b strings.Builder
	b.WriteString("| Tool |")
	for _, f := range features {
		fmt.Fprintf(&b, " %s |", f.name)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 1+len(features)) + "\n")
	for _, tl := range tools {
		r := seen[tl.name]
		if r == nil {
			continue
		}
		fmt.Fprintf(&b, "| %s %s |", tl.name, r.Version)
		for _, f := range features {
			fmt.Fprintf(&b, " %s |", short(r.Cells[f.name]))
		}
		b.WriteByte('\n')
	}
	b.WriteString("\nCells:\n\n")
	for _, c := range configurations {
		fmt.Fprintf(&b, "- %s: with %s\n", c.name, c.about)
	}
	b.WriteString("- \\*: on tables that were laid by hand, since the tool's migrations fail\n" +
		"- needs: the step that fails before it\n- –: the tool has no such thing, or its application leaves it out\n\nSteps:\n\n")
	for _, f := range features {
		fmt.Fprintf(&b, "- %s: %s\n", f.name, f.about)
	}
	b.WriteString("\nWhy not:\n")
	for _, tl := range tools {
		if r := seen[tl.name]; r != nil {
			b.WriteString(r.reasons(tl.name))
		}
	}
	return b.String()
}

// short is a cell of the table.
func short(c *cell) string {
	switch {
	case c == nil:
		return "–"
	case c.How != "" && c.ByHand:
		return c.How + `\*`
	case c.How != "":
		return c.How
	case c.Needs != "":
		return "needs " + c.Needs
	default:
		return "**not**"
	}
}

// reasons are the steps of a tool that failed for a reason of their own.
func (r *row) reasons(name string) string {
	var b strings.Builder
	for _, f := range features {
		c := r.Cells[f.name]
		if c == nil || c.How != "" || c.Needs != "" {
			continue
		}
		fmt.Fprintf(&b, "  - %s: ", f.name)
		if c.Statement != "" {
			fmt.Fprintf(&b, "`%s`: ", strings.ReplaceAll(c.Statement, "`", "'"))
		}
		fmt.Fprintf(&b, "%s %s\n", c.Code, c.Message)
	}
	if b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("\n- %s\n%s", name, b.String())
}
