package rewrite

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// drawChoices are random choices; of a key nothing is said every other time.
func drawChoices(rng *rand.Rand) (c ClientOptions) {
	for _, key := range ClientOptionKeys() {
		if values := ClientOptionValues(key); rng.IntN(2) == 0 {
			c = c.WithOption(key, values[rng.IntN(len(values))])
		}
	}
	return c
}

// allOf is what a plan says; two planners agree where these are equal.
func allOf(p *Plan) any {
	statements, alterations := make([]Statement, len(p.Statements)), []any(nil)
	for i, st := range p.Statements {
		if a := stepsOf[*alter.Alteration](&st); a != nil { // without its tree
			st.Steps = nil
			alterations = append(alterations, []any{a.Text, a.Table, a.Column, a.Type, a.Default, a.NotNull, a.IfNotExists, a.Own, a.Held, a.Retypes, a.Checks, a.TemporaryName()})
		}
		statements[i] = st
	}
	return []any{p.Kind, p.Text, p.Pin, p.Operation, p.Findings, statements, alterations}
}

// A planner of Under plans every text as one that has these values in its configuration, whatever
// others were asked before; what is no DDL has one plan, and there are as many planners as the
// values allow.
func TestUnder(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, file := range []string{"alter", "constraint", "index", "identity", "serial", "others", "refused", "locking"} {
		texts = append(texts, goldenCases(t, file)...)
	}
	texts = append(texts, "SELECT 1", "UPDATE t SET a = 1", "INSERT INTO t VALUES (1)", "BEGIN", "SET timezone = 'UTC'", "",
		"CREATE TABLE a (id int); CREATE TABLE b (id int)", "CREATE TABLE a (id int); INSERT INTO a VALUES (1)")
	rng := rand.New(rand.NewPCG(1, 2))
	config := Defaults()
	config.Choices = ClientOptions{}.WithOption(CarryOutKey, "exact")
	shared, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	planners, differs := map[*Planner]bool{}, 0
	for range 60 {
		c := drawChoices(rng)
		fixed := Defaults()
		fixed.Rules = c.WithDefaults(config.Choices).applyTo(fixed.Rules)
		if same := fixed.Rules.variant() == config.Rules.variant(); same != (shared.ForOptions(c) == shared) {
			t.Fatalf("%v: it is the planner of the configuration: %v", c, !same)
		}
		alone, err := New(fixed)
		if err != nil {
			t.Fatal(err)
		}
		p := shared.ForOptions(c)
		planners[p] = true
		for range 60 {
			sql := []byte(texts[rng.IntN(len(texts))])
			got, want := p.Plan(sql), alone.Plan(sql)
			if !reflect.DeepEqual(allOf(got), allOf(want)) {
				t.Fatalf("%v: %s\ngot  %+v\nwant %+v", c, sql, allOf(got), allOf(want))
			}
			base := shared.Plan(sql)
			if got.Kind != DDL && got != base && len(got.Statements) > 0 && p.cache.find(0, sql) == base {
				t.Errorf("%s is remembered twice", sql)
			}
			if !reflect.DeepEqual(allOf(got), allOf(base)) {
				differs++
			}
		}
	}
	if len(planners) < 10 || len(planners) > 48 || differs < 100 {
		t.Errorf("%d planners, and %d plans that were not the configuration's", len(planners), differs)
	}
}

// Who asks for a planner at once gets one.
func TestUnderIsShared(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	c := ClientOptions{}.WithOption(CarryOutKey, "all")
	got := make([]*Planner, 16)
	var askers sync.WaitGroup
	for i := range got {
		askers.Go(func() {
			got[i] = p.ForOptions(c)
			got[i].Plan([]byte("ALTER TABLE t ADD COLUMN a int DEFAULT 1"))
		})
	}
	askers.Wait()
	for _, g := range got {
		if g != got[0] || g == p || g.ForOptions(ClientOptions{}) != p {
			t.Fatal("there are two")
		}
	}
}

// The values that a key takes, and what each means, with and without ddl.carry_out.
func TestChoices(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	for _, test := range []struct{ said, want string }{
		{"", "exact refuse refuse refuse refuse refuse true"},
		{"ddl.carry_out=all", "all backfill autocommit-destructive check rewrite domain true"},
		{"ddl.carry_out=all ddl.in_transactions=autocommit", "all backfill autocommit check rewrite domain true"},
		{"ddl.carry_out=all ddl.set_not_null=refuse ddl.alter_column_type=rewrite rewrite.create_index_wait=false", "all backfill autocommit-destructive refuse rewrite domain false"},
		{"ddl.add_column_default=backfill ddl.carry_out=exact", "exact backfill refuse refuse refuse refuse true"},
	} {
		c := ClientOptions{}
		for one := range strings.FieldsSeq(test.said) {
			key, value, _ := strings.Cut(one, "=")
			normal, ok := ParseClientOption(key, strings.ToUpper(value))
			if !ok || normal != value {
				t.Errorf("%s is read as %q", one, normal)
			}
			c = c.WithOption(key, normal)
		}
		var got []string
		for _, key := range ClientOptionKeys() {
			got = append(got, p.OptionValue(key, c))
		}
		if all := strings.Join(got, " "); all != test.want {
			t.Errorf("%s: %s, want %s", test.said, all, test.want)
		}
	}
	for _, bad := range [][2]string{{CarryOutKey, "auto"}, {CarryOutKey, ""}, {CreateIndexWaitKey, "maybe"}, {"ddl.add_constraint", "steps"}, {"", ""}} {
		if _, ok := ParseClientOption(bad[0], bad[1]); ok {
			t.Errorf("%q is taken", bad)
		}
	}
	for written, want := range map[string]string{"on": "true", "1": "true", "No": "false", " off ": "false"} {
		if got, ok := ParseClientOption(CreateIndexWaitKey, written); !ok || got != want {
			t.Errorf("%q is %q", written, got)
		}
	}
}
