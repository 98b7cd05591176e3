package dsqlsim

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// commits asks the plan about COMMITs of a session and tells at which a fault happened.
func commits(p *faultPlan, session uint64, n int) []int {
	var happened []int
	for i := 1; i <= n; i++ {
		m := faultMoment{at: AtCommit, session: session, transaction: uint64(i), statement: 2, verb: "COMMIT", sql: "COMMIT"}
		if p.nextFault(&m) != nil {
			happened = append(happened, i)
		}
	}
	return happened
}

func planOf(t *testing.T, faults ...Fault) *faultPlan {
	t.Helper()
	var p faultPlan
	if err := p.addFaults(faults, make([]error, len(faults))); err != nil {
		t.Fatal(err)
	}
	return &p
}

func conflictAt(at FaultPoint) Fault { return Fault{At: at, Action: Fail, Error: "conflict"} }

func TestPlanCounts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		of   Fault
		want string
	}{
		{"once", Fault{}, "[1]"},
		{"thrice", Fault{Count: 3}, "[1 2 3]"},
		{"always", Fault{Count: Always}, "[1 2 3 4 5 6]"},
		{"later", Fault{Skip: 4}, "[5]"},
		{"later and often", Fault{Skip: 2, Count: 2}, "[3 4]"},
		{"a transaction", Fault{Transaction: 3}, "[3]"},
		{"a statement", Fault{Statement: 2}, "[1]"},
		{"another statement", Fault{Statement: 1}, "[]"},
		{"a verb", Fault{Verb: "end"}, "[1]"},
		{"another verb", Fault{Verb: "UPDATE"}, "[]"},
		{"a text", Fault{Contains: "MMI", Skip: 1}, "[2]"},
		{"another text", Fault{Contains: "commit"}, "[]"},
		{"another session", Fault{Session: 2}, "[]"},
		{"certain", Fault{Probability: 1}, "[1 2 3 4 5 6]"},
		{"certain, twice", Fault{Probability: 1, Count: 2}, "[1 2]"},
	} {
		f := test.of
		f.At, f.Action, f.Error = AtCommit, Fail, "conflict"
		p := planOf(t, f)
		if got := fmt.Sprint(commits(p, 1, 6)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		if at := (faultMoment{at: AtStatement, session: 1}); p.nextFault(&at) != nil {
			t.Errorf("%s: happened at another point", test.name)
		}
	}
}

func TestPlanPerSession(t *testing.T) {
	t.Parallel()
	f := conflictAt(AtCommit)
	f.Skip, f.PerSession = 1, true
	p := planOf(t, f)
	for session := range uint64(3) {
		if got := fmt.Sprint(commits(p, session+1, 5)); got != "[2]" {
			t.Errorf("session %d: %s", session+1, got)
		}
	}
	p.forgetSession(2)
	if n := len(p.faults[0].each); n != 2 {
		t.Errorf("remembers %d sessions, want 2", n)
	}
}

// One fault waits for another, and the one planned first goes first.
func TestPlanOrder(t *testing.T) {
	t.Parallel()
	first, second, third := conflictAt(AtCommit), conflictAt(AtCommit), conflictAt(AtCommit)
	first.Name, first.Skip = "first", 1
	second.Name, second.After, second.Skip = "second", "first", 1
	third.After = "second"
	p := planOf(t, third.as("alone", ""), first, second, third)
	var names []string
	for range 6 {
		name := "-"
		if f := p.nextFault(&faultMoment{at: AtCommit, session: 1}); f != nil {
			name = f.Name
		}
		names = append(names, name)
	}
	// "alone" takes the first COMMIT, which counts for "first" all the same.
	if got := strings.Join(names, " "); got != "alone first - second  -" {
		t.Errorf("got %q", got)
	}
	if p.pending.Load() != 0 {
		t.Errorf("%d are left", p.pending.Load())
	}
}

func (f Fault) as(name, after string) Fault {
	f.Name, f.After = name, after
	return f
}

func TestPlanProbability(t *testing.T) {
	t.Parallel()
	const n = 20_000
	run := func(seed uint64) []int {
		f := conflictAt(AtCommit)
		f.Probability, f.Seed = 0.05, seed
		return commits(planOf(t, f), 1, n)
	}
	one, again, other := run(1), run(1), run(2)
	if fmt.Sprint(one) != fmt.Sprint(again) {
		t.Error("the same seed gave another run")
	}
	if fmt.Sprint(one) == fmt.Sprint(other) {
		t.Error("another seed gave the same run")
	}
	if share := float64(len(one)) / n; math.Abs(share-0.05) > 0.01 {
		t.Errorf("%.3f of the commits, want 0.05", share)
	}
}

func TestPlanProblems(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		plan string
		want []string // each in a line of its own
	}{
		{`{"at":"commit"}`, []string{`want a JSON list of faults such as [{"at":"commit","action":"cut"}]`}},
		{`null`, []string{"want a JSON list"}},
		{`[{"at":"commit"`, []string{"want a JSON list"}},
		{`[{"at":"commit","action":"cut"}, 7, null]`, []string{"fault 2: 7: want an object", "fault 3: null: want an object"}},
		{`[{}]`, []string{`fault 1: at "": want connect, statement, row, running, answered, commit, committing or committed`, `fault 1: action "": want fail, cut or stall`}},
		{`[{"at":"somewhere","action":"explode"}, {"at":"commit","action":"stall","row":1,"skip":-1}]`, []string{
			`fault 1: at "somewhere": want`, `fault 1: action "explode": want`,
			"fault 2: seconds 0: want more than 0, at most 3600", "fault 2: row 1: want", "fault 2: skip -1: want 0 or more"}},
		{`[{"at":"commit","action":"cut","skip":"two","when":"now","count":1.5,"seed":-1,"per_session":0,"name":null}]`, []string{
			`name null: want text`, `skip "two": want a whole number`, `seed -1: want a whole number`,
			`count 1.5: want a whole number`, `per_session 0: want true or false`, `"when" "now": there is no such key, only at, action, error`}},
		{`[{"at":"connect","action":"fail","error":"conflict"}]`, []string{`error "conflict": want rate, connections, denied or waking-up`}},
		{`[{"at":"statement","action":"fail","error":"rate"}]`, []string{`error "rate": want conflict, schema, timeout or refused`}},
		{`[{"at":"statement","action":"fail"}]`, []string{`error "": want conflict, schema, timeout or refused`}},
		{`[{"at":"committed","action":"fail","error":"conflict"}]`, []string{`action "fail": want cut or stall at committed`}},
		{`[{"at":"statement","action":"cut","error":"schema","seconds":1}]`, []string{`error "schema": want none`, `seconds 1: want none`}},
		{`[{"at":"commit","action":"cut","probability":1.5,"count":-2,"statement":-1}]`, []string{"count -2", "probability 1.5", "statement -1"}},
		{`[{"at":"commit","action":"cut","seed":3}]`, []string{"seed 3: want none without a probability"}},
		{`[{"at":"connect","action":"cut","session":1,"transaction":1,"statement":1,"verb":"X","contains":"x","per_session":true}]`, []string{
			"session 1: want none at connect", "transaction 1", "statement 1", `verb "X"`, `contains "x"`, "per_session true"}},
		{`[{"at":"commit","action":"cut","after":"x"}, {"at":"commit","action":"cut","name":"x"}]`, []string{`fault 1: after "x": want the name of a fault that is planned before`}},
		{`[{"at":"commit","action":"cut","name":"x","after":"x"}]`, []string{`after "x": want the name of another fault`}},
		{`[{"at":"commit","action":"cut","name":"` + strings.Repeat("x", 2000) + `"}]`, []string{"want at most 1000 bytes"}},
	} {
		s := Server{}
		err := s.AddFaultsJSON([]byte(test.plan))
		if err == nil {
			t.Errorf("%s was planned", test.plan)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(test.want) {
			t.Errorf("%s: %d problems, want %d:\n%v", test.plan, len(lines), len(test.want), err)
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s:\n got %s\nwant %s", test.plan, lines[i], want)
			}
			if len(lines[i]) > 300 {
				t.Errorf("%d bytes of a problem", len(lines[i]))
			}
		}
		if left := s.PendingFaults(); len(left) != 0 {
			t.Errorf("%s: planned in part: %+v", test.plan, left)
		}
	}
}

func TestPlanIsBounded(t *testing.T) {
	t.Parallel()
	s := Server{}
	f := conflictAt(AtCommit)
	for range maxFaults {
		if err := s.AddFaults(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddFaults(f); err == nil || !strings.Contains(err.Error(), "more than 1000") {
		t.Errorf("got %v", err)
	}
	s.ClearFaults()
	if err := s.AddFaults(f); err != nil {
		t.Error(err)
	}
}

// Whatever a plan can say, its help names.
func TestPlanHelp(t *testing.T) {
	t.Parallel()
	help := FaultPlanHelp()
	for _, k := range faultKeys {
		if !strings.Contains(help, "  "+k.name+" ") {
			t.Errorf("the key %s is missing", k.name)
		}
	}
	for _, at := range points {
		if !strings.Contains(help, "  "+string(at)+" ") {
			t.Errorf("the point %s is missing", at)
		}
	}
	for _, action := range actions {
		if !strings.Contains(help, string(action)) {
			t.Errorf("the action %s is missing", action)
		}
	}
	for _, r := range refusals {
		if !strings.Contains(help, r.name) {
			t.Errorf("the error %s is missing", r.name)
		}
	}
	for line := range strings.Lines(help) {
		if len(line) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}
