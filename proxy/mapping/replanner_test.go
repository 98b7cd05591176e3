package mapping

import (
	"testing"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// byteaPlanner returns a planner that maps columns.
func byteaPlanner(t *testing.T) *rewrite.Planner {
	t.Helper()
	config := rewrite.Defaults()
	config.Rules.Bytea = rewrite.ByteaHex
	planner, err := rewrite.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return planner
}

// table returns a snapshot with the table s.t, whose column k may be mapped.
func table(mapped bool) *Snapshot {
	return &Snapshot{Schema: schema.New([]schema.Relation{{Schema: "s", Name: "t", Columns: []schema.Column{{Name: "k", Mapped: mapped}}}})}
}

// A text gets a new plan if the new schema maps a column that the text reads. Its old plan stands for the new one, as
// does the plan of the same text as a write.
func TestReplanned(t *testing.T) {
	t.Parallel()
	planner := byteaPlanner(t)
	for name, test := range map[string]struct {
		sql           string
		was, now      *Snapshot
		refused       bool
		changed, lost bool
	}{
		"mapped now":             {sql: "SELECT k FROM t", was: table(false), now: table(true), changed: true},
		"not mapped any more":    {sql: "SELECT k FROM t", was: table(true), now: table(false), changed: true},
		"an equal schema":        {sql: "SELECT k FROM t", was: table(true), now: table(true)},
		"another table":          {sql: "SELECT k FROM u", was: table(false), now: table(true)},
		"no name":                {sql: "SET search_path TO s", was: table(false), now: table(true), refused: true},
		"a text refused now":     {sql: "SELECT k FROM u", was: table(false), now: table(true), refused: true, changed: true, lost: true},
		"EXPLAIN":                {sql: "EXPLAIN SELECT k FROM t", was: table(false), now: table(true), changed: true},
		"a name with a schema":   {sql: "SELECT k FROM s.t", was: table(false), now: table(true), changed: true},
		"a write that is mapped": {sql: "DELETE FROM t WHERE k = '\\x00'", was: table(false), now: table(true), changed: true},
	} {
		names := test.was.ResolverFor([]string{"s"})
		was := planner.PlanWithNames([]byte(test.sql), names)
		r := NewReplanner(test.now, planner, func(*rewrite.Plan) bool { return test.refused })
		plan, by := r.Replan([]byte(test.sql), names, was)
		if (plan != nil) != test.changed || r.HasChanged() != test.changed || r.IsLost() != test.lost {
			t.Errorf("%s: changed %v, lost %v", name, plan != nil, r.IsLost())
		}
		if plan == nil {
			if by != nil || r.NewPlan(was) != nil {
				t.Errorf("%s: no new plan has one", name)
			}
			continue
		}
		if by != test.now.ResolverFor([]string{"s"}) || r.NewPlan(was) != plan || r.NewPlan(was.AsWrite()) != plan.AsWrite() {
			t.Errorf("%s: by other names, or under another plan", name)
		}
	}
}

// Texts of the snapshot itself, and those planned without names, stay. The plans of a transaction with DDL stay as long
// as other sessions see the same schema as before.
func TestNotReplanned(t *testing.T) {
	t.Parallel()
	planner, now, sql := byteaPlanner(t), table(true), []byte("SELECT k FROM t")
	inBlock, older := table(false), table(false)
	inBlock.Outside, older.Outside = now.Schema, table(false).Schema
	for name, test := range map[string]struct {
		names *schema.NameResolver
		lost  bool
	}{
		"no names":               {nil, false},
		"the same snapshot":      {now.ResolverFor([]string{"s"}), false},
		"behind DDL":             {inBlock.ResolverFor([]string{"s"}), false},
		"behind DDL, by another": {older.ResolverFor([]string{"s"}), true},
	} {
		r := NewReplanner(now, planner, func(*rewrite.Plan) bool { return true })
		if plan, _ := r.Replan(sql, test.names, planner.Plan(sql)); plan != nil || r.HasChanged() || r.IsLost() != test.lost {
			t.Errorf("%s: changed %v, lost %v", name, plan != nil, r.IsLost())
		}
		r.GiveUpIf(false)
		if r.IsLost() != test.lost {
			t.Errorf("%s: lost without a reason", name)
		}
		if r.GiveUpIf(true); !r.IsLost() {
			t.Errorf("%s: not lost", name)
		}
	}
}

// A text that was planned before the first snapshot stays, if there is still none.
func TestReplannedWithoutASnapshot(t *testing.T) {
	t.Parallel()
	planner, sql := byteaPlanner(t), []byte("SELECT 1")
	r := NewReplanner(nil, planner, func(*rewrite.Plan) bool { return false })
	if plan, names := r.Replan(sql, nil, planner.Plan(sql)); plan != nil || names != nil || r.HasChanged() || r.IsLost() {
		t.Errorf("changed %v, lost %v", plan != nil, r.IsLost())
	}
}

// Without names, SET and BEGIN pass; reads without relations pass if the server refuses the schema or DDL is in front.
func TestPlansWithoutNames(t *testing.T) {
	t.Parallel()
	planner := byteaPlanner(t)
	refused, late := NotRead(&RefusedError{"42501", "no"}), NotRead(ErrLate)
	for sql, want := range map[string][3]bool{ // by refused, ErrBehindDDL, late
		"SET a.b TO 1":                {true, true, true},
		"BEGIN":                       {true, true, true},
		"SELECT 1":                    {true, true, false},
		"SELECT a FROM t":             {false, false, false},
		"INSERT INTO t VALUES (1)":    {false, false, false},
		"SELECT 1; SELECT a FROM s.t": {false, false, false},
		"this is no SQL":              {false, false, false},
	} {
		plan := planner.Plan([]byte(sql))
		for i, err := range []*wire.Error{refused, ErrBehindDDL, late} {
			if got := MayPlanWithoutNames(planner, []byte(sql), plan, err); got != want[i] {
				t.Errorf("%s, after %v: %v", sql, err, got)
			}
		}
	}
}
