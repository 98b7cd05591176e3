package mapping

import (
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// snapshot returns a snapshot with the tables a.t and b.t.
func snapshot() *Snapshot {
	return &Snapshot{Schema: schema.New([]schema.Relation{{Schema: "a", Name: "t"}, {Schema: "b", Name: "t"}}), base: &schemaBase{role: "b", path: []string{"$user", "public"}}, readAt: time.Unix(100, 0)}
}

// found returns the schema in which names find t, or "?" for an unknown path.
func found(now *Snapshot, names *schema.NameResolver) string {
	if names == now.ResolverForUnknownPath() {
		return "?"
	}
	if r := names.Relation("", "t"); r != nil {
		return r.Schema
	}
	return ""
}

// Names are those of the path in force, and are resolved again for another schema or other settings only.
func TestNamesOfAView(t *testing.T) {
	var v View
	now, client := snapshot(), settings.Client{InForce: settings.NewValues(nil), Startup: settings.NewValues(nil)}
	first := v.Names(now, &client, false, false)
	if got := found(now, first); got != "b" {
		t.Errorf("by the default path: %q", got)
	}
	if n := testing.AllocsPerRun(10, func() { v.Names(now, &client, false, false) }); n != 0 {
		t.Errorf("names that are known cost %v allocations", n)
	}
	client.InForce = settings.NewValues(map[string]string{"search_path": "'a'"})
	if got := found(now, v.Names(now, &client, false, false)); got != "a" {
		t.Errorf("by a path that was set: %q", got)
	}
	client.Staged.Stage(rewrite.SettingChange{Name: "search_path", SQL: "'b'"})
	if got := found(now, v.Names(now, &client, false, false)); got != "b" {
		t.Errorf("by a staged path: %q", got)
	}
	client.Staged = settings.Staged{}
	if got := found(now, v.Names(now, &client, false, false)); got != "a" {
		t.Errorf("behind a ROLLBACK: %q", got)
	}
	later := snapshot()
	if got := v.Names(later, &client, false, false); got.Schema() != later.Schema || found(later, got) != "a" {
		t.Errorf("by a newer snapshot: %q", found(later, got))
	}
	if got := found(later, v.Names(later, &client, false, true)); got != "?" {
		t.Errorf("while a reply may change the path: %q", got)
	}
	client.InForce = settings.NewValues(map[string]string{"role": "'r'"})
	if got := found(later, v.Names(later, &client, false, false)); got != "?" {
		t.Errorf("by the schema of an unknown role: %q", got)
	}
}

// The path is unknown behind a function that may set it, to the end of the transaction, and behind some pins, as long
// as the session is pinned.
func TestPathDoubts(t *testing.T) {
	t.Parallel()
	var v View
	now, client := snapshot(), settings.Client{InForce: settings.NewValues(nil), Startup: settings.NewValues(nil)}
	want := func(when string, pinned bool, want string) {
		t.Helper()
		if got := found(now, v.Names(now, &client, pinned, false)); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	v.RecordPathDoubt()
	want("behind a function", false, "?")
	v.ForgetPathDoubt()
	want("behind its transaction", false, "b")
	v.RecordPin(rewrite.PinPrepare, false)
	want("behind a PREPARE", true, "b")
	v.RecordPin(rewrite.PinTemp, true)
	want("behind a temporary table", true, "?")
	want("behind a temporary table, without the pin", false, "b")
	v.RecordPin(rewrite.PinPrepare, true)
	want("behind both", true, "?")
	v.RecordPin(rewrite.PinPrepare, false)
	want("behind another pin", true, "b")
}

// A plan is old if it was made by another schema. A backend may know a newer one if it is current since the reading.
func TestStalePlans(t *testing.T) {
	t.Parallel()
	var v View
	now, later := snapshot(), snapshot()
	if v.IsPlanStale(nil) || v.Planned() != nil || v.NamesNoRelation() {
		t.Error("a plan without names is old")
	}
	v.SetPlanned(now.ResolverFor(nil))
	if v.IsPlanStale(now) || !v.IsPlanStale(later) || v.Planned().Schema() != now.Schema {
		t.Error("a plan is old by its own schema, or is not by another")
	}
	if now.MayBeOlderThan(time.Unix(99, 0)) || !now.MayBeOlderThan(time.Unix(100, 0)) {
		t.Error("a snapshot is older than an older backend, or is not older than a newer one")
	}
	v.SetPlannedWithoutNames()
	if !v.NamesNoRelation() || v.Planned() != nil || v.IsPlanStale(later) {
		t.Error("a plan without names has some")
	}
	v.BeginQuery()
	if v.NamesNoRelation() {
		t.Error("the next query names no relation")
	}
}

// What queries of several statements, and those without relations, need of the schema.
func TestTexts(t *testing.T) {
	t.Parallel()
	set := rewrite.Statement{Kind: rewrite.Setting, Changes: []rewrite.SettingChange{{Name: "search_path", SQL: "'a'"}}}
	zone := rewrite.Statement{Kind: rewrite.Setting, Changes: []rewrite.SettingChange{{Name: "timezone", SQL: "'UTC'"}}}
	read, call := rewrite.Statement{Kind: rewrite.Read}, rewrite.Statement{Kind: rewrite.Read, Calls: true}
	commit := rewrite.Statement{Kind: rewrite.Control, Tx: rewrite.TxControl{Verb: rewrite.Commit}}
	rollback := rewrite.Statement{Kind: rewrite.Control, Tx: rewrite.TxControl{Verb: rewrite.Rollback}}
	outside := schema.New(nil)
	own := schema.New(nil)
	own.Outside = outside
	for name, test := range map[string]struct {
		statements                             []rewrite.Statement
		staged                                 []rewrite.SettingChange
		independent, mayChange, needsCommitted bool
	}{
		"SET":               {[]rewrite.Statement{set}, nil, true, false, false},
		"a read":            {[]rewrite.Statement{read}, nil, false, false, false},
		"SET and a read":    {[]rewrite.Statement{set, read}, nil, false, true, false},
		"SET timezone":      {[]rewrite.Statement{zone, read}, nil, false, false, false},
		"a call":            {[]rewrite.Statement{call}, nil, false, false, false},
		"a call and a read": {[]rewrite.Statement{call, read}, nil, false, true, false},
		"COMMIT":            {[]rewrite.Statement{commit, read}, nil, false, false, false},
		"COMMIT of a SET":   {[]rewrite.Statement{commit, read}, set.Changes, false, true, false},
		"ROLLBACK":          {[]rewrite.Statement{read, rollback}, nil, false, false, false},
		"behind ROLLBACK":   {[]rewrite.Statement{rollback, read}, nil, false, false, true},
	} {
		plan := &rewrite.Plan{Kind: test.statements[0].Kind, Statements: test.statements}
		if got := IsSchemaIndependent(plan); got != test.independent {
			t.Errorf("%s: independent %v", name, got)
		}
		if got := NamesMayChangeWithin(plan, test.staged); got != test.mayChange {
			t.Errorf("%s: may change %v", name, got)
		}
		if got := NeedsCommittedSchema(plan, own.ResolverFor(nil)); got != test.needsCommitted {
			t.Errorf("%s: needs the committed schema %v", name, got)
		}
		if NeedsCommittedSchema(plan, nil) || NeedsCommittedSchema(plan, outside.ResolverFor(nil)) {
			t.Errorf("%s: needs another schema outside of a transaction with DDL", name)
		}
	}
	if IsSchemaIndependent(&rewrite.Plan{Kind: rewrite.Unknown}) {
		t.Error("a text that was not parsed is independent")
	}
	if r, known := NoNames().FindRelation("", "t"); r != nil || !known {
		t.Error("no names have one")
	}
}
