package rewrite

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// showFindings writes what the rules say of a plan, one finding a line, and what
// the relay is told.
func showFindings(plan *Plan) string {
	var lines []string
	for _, f := range plan.Findings {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", f.Rule, f.Feature, f.Outcome, f.Severity))
	}
	for _, st := range plan.Statements {
		if st.Tag != "" {
			lines = append(lines, "tag "+st.Tag)
		}
		if st.Refusal != nil {
			lines = append(lines, "refusal "+st.Refusal.Code)
		}
		if c := stepsOf[*alter.AddedConstraints](&st); c != nil {
			lines = append(lines, showSteps(c)...)
		}
		if st.ReplacementTag != "" {
			lines = append(lines, "shown "+st.ReplacementTag)
		}
		if st.Warning != nil {
			lines = append(lines, "warning "+st.Warning.Message+": "+st.Warning.Detail)
		}
		if g := stepsOf[*DoBlock](&st); g != nil {
			lines = append(lines, fmt.Sprintf("guarded %q %v %s", g.Condition, g.IgnoredCodes, g.Command.Text))
			if st.Pin != NoPin {
				lines = append(lines, "pins")
			}
		}
		if c := stepsOf[*MultiCommand](&st); c != nil {
			for i := range c.Parts {
				lines = append(lines, "command "+c.Parts[i].Text)
			}
		}
		if a := stepsOf[*alter.Alteration](&st); a != nil && a.Retypes {
			r := a.StartTypeChange("1")
			for _, step := range []string{r.AddColumnSQL(), r.BackfillSQL(r.Column, []string{"id"}, 9), r.ClearChangedSQL(r.OldColumn, nil, 9)} {
				lines = append(lines, "step "+step)
			}
		}
		if c := st.Cursor; c != nil {
			lines = append(lines, fmt.Sprintf("cursor %d %q %q %d%s", c.Verb, c.Name, c.Query, c.Rows, cursorWords(c)))
		}
		if c := st.CopyIn; c != nil {
			lines = append(lines, fmt.Sprintf("copy %+v", *c))
		}
		if st.Job != NoJob {
			lines = append(lines, [...]string{"", "job", "job awaited"}[st.Job])
		}
	}
	return strings.Join(lines, "\n")
}

// stepsOf is the plan of a statement's steps if it is of type T, otherwise nil.
func stepsOf[T alter.Steps](st *Statement) T {
	steps, _ := st.Steps.(T)
	return steps
}

// showSteps are the statements by which constraints are added.
func showSteps(c *alter.AddedConstraints) (lines []string) {
	for _, column := range c.Columns {
		lines = append(lines, "step "+column.Add)
	}
	for i := range c.Adds {
		a := &c.Adds[i]
		name := a.Name
		if name == "" {
			name = a.CandidateName(0)
		}
		if a.Kind == alter.Unique {
			lines = append(lines, "step "+a.CreateIndexSQL(name), "step "+a.AddUsingIndexSQL(name, name))
			continue
		}
		lines = append(lines, "step "+a.AddNotValidSQL(name), "step "+a.ValidateSQL(name))
	}
	return lines
}

// cursorWords are what else is known of a statement about a cursor.
func cursorWords(c *CursorStatement) (words string) {
	for _, is := range []struct {
		so   bool
		word string
	}{{c.NoScroll, " no scroll"}, {c.Scroll, " scroll"}, {c.Hold, " hold"}, {c.Backward, " backward"}, {c.Elsewhere, " elsewhere"}} {
		if is.so {
			words += is.word
		}
	}
	if c.Elsewhere {
		words += fmt.Sprintf(" %d:%d", c.Direction, c.Count)
	}
	return words
}

// goldenPolicies are what the golden files are written for.
var goldenPolicies = []LockPolicy{
	{Tables: []string{"stripped*"}, Policy: Strip, FencedBy: "version"},
	{Tables: []string{"half"}, Clauses: []string{NoKeyUpdateClause}, Policy: Strip, FencedBy: "version"},
	{Tables: []string{"keyed"}, Policy: KeyShare, Name: "lock_keyed"},
	{Tables: []string{"flagged"}, Policy: Flag},
	{Tables: []string{"rejected", "s.*"}, Policy: Reject},
}

func goldenPlanner(t testing.TB) *Planner {
	t.Helper()
	config := Defaults()
	config.Rules.Policies, config.Rules.NotNullCheck, config.Rules.Retype = goldenPolicies, true, true
	config.Rules.CopyIn = true
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// update writes what came out into the golden files, to be read before it is kept.
var update = flag.Bool("update", false, "write testdata anew")

func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.sql")
	if err != nil || len(files) < 5 {
		t.Fatalf("golden files: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".sql"), func(t *testing.T) {
			t.Parallel()
			p := goldenPlanner(t)
			switch rules := &p.config.Rules; filepath.Base(file) {
			case "commands.sql":
				rules.InTransactions, rules.Backfill = CommitDDL, true
			case "enumeration.sql":
				rules.Enums = true
			}
			cases := sqltexts.ReadGolden(t, file)
			var fresh strings.Builder
			for _, c := range cases {
				plan := p.Plan([]byte(c.In))
				out, rules := plan.Text, showFindings(plan)
				if out == "" {
					out = "same"
				}
				fmt.Fprintf(&fresh, "-- in\n%s\n-- out\n%s\n-- rules\n%s\n\n", c.In, out, rules)
				if *update {
					continue
				}
				if out != c.Out || rules != c.Rules {
					t.Errorf("%s:%d\n%s\n got  %s\n want %s\n rules %s\n want  %s", file, c.Line, c.In, out, c.Out, rules, c.Rules)
				}
				checkIdempotent(t, p, plan)
			}
			if *update {
				head, _, _ := strings.Cut(sqltexts.ReadFile(t, file), "-- in\n")
				if err := os.WriteFile(file, []byte(head+fresh.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// checkIdempotent holds that what came out is left alone when it comes in.
func checkIdempotent(t testing.TB, p *Planner, plan *Plan) {
	t.Helper()
	if plan.Text == "" {
		return
	}
	if again := p.Plan([]byte(plan.Text)); again.Text != "" {
		t.Errorf("%q is rewritten again, to %q", plan.Text, again.Text)
	}
}
