package matrix

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const seenFile = "testdata/seen.json"

// record is what was seen of each tool: what docs/applications.md is made of.
type record map[string]*row

// row is what was seen of one tool.
type row struct {
	Version string           `json:"version"`
	Cells   map[string]*cell `json:"cells"`

	refused []string // for -refusals
	ownDDL  bool     // in some configuration all migrations have run
}

// cell is what became of a step.
type cell struct {
	// How is the first configuration in which the step was as on PostgreSQL, or empty.
	How string `json:"how,omitempty"`
	// ByHand says that it was so only on tables that were laid by hand.
	ByHand bool `json:"by_hand,omitempty"`
	// Else there is the step that it needs, or why it failed and the configuration in which it did.
	In        string `json:"in,omitempty"`
	Needs     string `json:"needs,omitempty"`
	Code      string `json:"code,omitempty"`
	Message   string `json:"message,omitempty"`
	Statement string `json:"statement,omitempty"`
}

func newRow(version string, wanted map[string]answer) *row {
	r := &row{Version: version, Cells: map[string]*cell{}}
	for name := range wanted {
		r.Cells[name] = &cell{}
	}
	return r
}

// settled says that nothing is left to try.
func (r *row) settled() bool {
	for _, c := range r.Cells {
		if c.How == "" || c.ByHand {
			return false
		}
	}
	return true
}

// add takes in what was seen in one more configuration. What was right on tables by hand counts as
// right where it is so on the tool's own tables, too.
func (r *row) add(c configuration, wanted, got map[string]answer, byHand bool) {
	for _, f := range features {
		at, played := got[f.name]
		cell := r.Cells[f.name]
		if cell == nil || !played {
			continue
		}
		if !at.ok || at.values != wanted[f.name].values {
			r.refused = append(r.refused, fmt.Sprintf("- %s, %s: %s", c.name, f.name, told(at, wanted[f.name])))
			for _, one := range at.refused {
				r.refused = append(r.refused, fmt.Sprintf("    - `%s` -> %s %s\n      detail: %s\n      hint: %s", shape(one.statement), one.code, one.message, one.detail, one.hint))
			}
		}
		cell.add(f, c, at, wanted[f.name], byHand, !byHand && !r.ownDDL)
	}
	r.ownDDL = r.ownDDL || !byHand
}

// add is the row's for one step. first says that this is the first configuration with the tool's own tables.
func (c *cell) add(f feature, with configuration, got, wanted answer, byHand, first bool) {
	right := got.ok && got.values == wanted.values
	onHand := byHand && f.phase == use
	switch {
	case right && c.How == "":
		*c = cell{How: with.name, ByHand: onHand}
	case right && !onHand:
		c.ByHand = false // and How stays: the rows were right without this switch
	case !right && c.ByHand && first && f.phase == use, !right && c.How == "":
		c.fail(with, got, wanted)
	}
}

// fail takes in why a step failed. What was known before stays, if it says the same or more.
func (c *cell) fail(with configuration, got, wanted answer) {
	now := cell{Needs: got.needs, Code: got.code, Message: shape(got.message), Statement: shape(got.statement)}
	if got.ok {
		now = cell{Code: "-", Message: unlike(got.values, wanted.values)}
	}
	now.In = c.In
	if got.needs != "" && (c.Code != "" || c.Needs != "" && place(got.needs) <= place(c.Needs)) || now == *c {
		return
	}
	if now.In = with.name; got.needs != "" {
		now.In = ""
	}
	*c = now
}

// place is where in the order of the steps one is: the later one is needed, the further a tool came.
func place(name string) int {
	return slices.IndexFunc(features, func(f feature) bool { return f.name == name })
}

// names tells whether a row's cells depend on a configuration. On the first they always do.
func (r *row) names(c configuration) bool {
	if r == nil || c.name == configurations[0].name {
		return true
	}
	for _, cell := range r.Cells {
		if cell.How == c.name || cell.In == c.name {
			return true
		}
	}
	return false
}

func told(got, wanted answer) string {
	if got.ok {
		return unlike(got.values, wanted.values)
	}
	return got.String()
}

// unlike shows two answers from shortly before where they part.
func unlike(got, wanted string) string {
	at, shorter := 0, min(len(got), len(wanted))
	for at < shorter && got[at] == wanted[at] {
		at++
	}
	around := func(s string) string {
		from, to := max(0, at-20), min(len(s), at+40)
		return strings.ToValidUTF8(s[min(from, to):to], "")
	}
	return fmt.Sprintf("answers %s, PostgreSQL %s", around(got), around(wanted))
}

// differences are between what is recorded and what is seen now.
func (r *row) differences(now *row) (all []string) {
	if r == nil {
		return []string{"nothing is recorded of it"}
	}
	if r.Version != now.Version {
		all = append(all, fmt.Sprintf("recorded is version %s, seen %s", r.Version, now.Version))
	}
	for _, f := range features {
		was, is := r.Cells[f.name], now.Cells[f.name]
		switch {
		case was == nil && is == nil:
		case was == nil || is == nil || *was != *is:
			all = append(all, fmt.Sprintf("%s: recorded is %v, seen %v", f.name, was, is))
		}
	}
	return all
}

func (c *cell) String() string {
	switch {
	case c == nil:
		return "nothing"
	case c.How != "" && c.ByHand:
		return c.How + ", on tables by hand"
	case c.How != "":
		return c.How
	case c.Needs != "":
		return "needs " + c.Needs
	default:
		return fmt.Sprintf("not: %s: %s %s", c.Statement, c.Code, c.Message)
	}
}

func load(t *testing.T) record {
	t.Helper()
	seen := record{}
	text, err := os.ReadFile(seenFile)
	if os.IsNotExist(err) && *update {
		return seen
	}
	if err == nil {
		err = json.Unmarshal(text, &seen)
	}
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// save writes the rows of now in the place of those before, and the document.
func save(t *testing.T, before, now record) {
	t.Helper()
	maps.Copy(before, now)
	maps.DeleteFunc(before, func(name string, _ *row) bool {
		return !slices.ContainsFunc(tools, func(tl tool) bool { return tl.name == name })
	})
	text, err := json.MarshalIndent(before, "", " ")
	if err == nil {
		err = os.WriteFile(seenFile, append(text, '\n'), 0o644)
	}
	if err == nil {
		err = writeDocument(before)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writeRefusals writes what each tool was refused, with the statements.
func writeRefusals(t *testing.T, now record) {
	t.Helper()
	var text []byte
	for _, tl := range tools {
		if row := now[tl.name]; row != nil {
			text = fmt.Appendf(text, "\n## %s %s\n\n", tl.name, row.Version)
			for _, line := range row.refused {
				text = append(append(text, line...), '\n')
			}
		}
	}
	if err := os.WriteFile(*refusals, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
