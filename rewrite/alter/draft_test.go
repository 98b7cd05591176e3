package alter

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// draftOf is the first statement of a text, as the planner hands it to the rules.
func draftOf(t *testing.T, sql string, rules Rules) *Draft {
	t.Helper()
	tree, err := parse.Tree(sql)
	if err != nil {
		t.Fatal(sql, err)
	}
	raw := tree.Child("stmts")
	end := len(sql)
	if n := raw.Integer("stmt_len"); n > 0 {
		end = n
	}
	return &Draft{Rules: rules, Raw: raw, Node: raw.Child("stmt"), Text: []byte(sql), End: len(strings.TrimRight(sql[:end], " ")), Tokens: &parse.TokenCache{},
		Alone: len(tree.Values("stmts")) == 1, Meant: parse.TreeChanges{}}
}

// plannedColumn is the Alteration that the rules for ALTER TABLE plan, or nil.
func plannedColumn(t *testing.T, sql string, rules Rules) *Alteration {
	t.Helper()
	d := draftOf(t, sql, rules)
	if d.PlanConstraints(); d.Steps == nil {
		d.RemoveAddedNull()
		d.PlanColumn()
	}
	a, _ := d.Steps.(*Alteration)
	return a
}

// A statement that DSQL refuses has a finding if no rule has planned steps for it, also where only the findings count.
func TestReportRefused(t *testing.T) {
	t.Parallel()
	all := Rules{Dialect: true, Backfill: true, Constraints: true, Retype: true}
	for _, c := range []struct {
		sql   string
		rules Rules
		dry   bool
		want  []finding.Feature
	}{
		{"ALTER TABLE t ADD a int DEFAULT 1", all, false, nil},
		{"ALTER TABLE t ADD a int DEFAULT 1", all, true, []finding.Feature{finding.AddColumn}},
		{"ALTER TABLE t ADD a int DEFAULT 1", Rules{Dialect: true}, false, []finding.Feature{finding.AddColumn}},
		{"ALTER TABLE t ADD a int DEFAULT 1; SELECT 1", all, false, []finding.Feature{finding.AddColumn}},
		{"ALTER TABLE t ALTER a TYPE text", Rules{Dialect: true}, false, []finding.Feature{finding.AlterType}},
		{"ALTER TABLE t ALTER a TYPE text", all, false, nil},
		{"ALTER TABLE t ADD CHECK (a > 0)", all, false, nil},
		{"ALTER TABLE t VALIDATE CONSTRAINT c", all, false, []finding.Feature{finding.Validate}},
	} {
		d := draftOf(t, c.sql, c.rules)
		d.Dry = c.dry
		if d.PlanConstraints(); d.Steps == nil {
			d.PlanColumn()
		}
		d.Findings = nil
		d.ReportRefused()
		var got []finding.Feature
		for _, f := range d.Findings {
			got = append(got, f.Feature)
		}
		if len(got) != len(c.want) || len(got) > 0 && got[0] != c.want[0] {
			t.Errorf("%s (dry %t): %v, want %v", c.sql, c.dry, got, c.want)
		}
	}
}

// Each feature of a refused command is in the catalogue.
func TestRefusedAltersAreFeatures(t *testing.T) {
	t.Parallel()
	for kind, f := range refusedAlters {
		if finding.Remedy(f) == "" {
			t.Errorf("%d: %s is not in the catalogue", kind, f)
		}
	}
}
