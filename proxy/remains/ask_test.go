package remains

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/rewrite"
)

// answer is what a backend answers to one question.
type answer struct {
	values  []string
	refused bool
	err     error
}

// backend answers one question after the other.
type backend struct {
	answers []answer
	asked   []string
}

func (b *backend) Ask(sql string) ([]string, bool, error) {
	b.asked = append(b.asked, sql)
	a := b.answers[0]
	b.answers = b.answers[1:]
	return slices.Clone(a.values), a.refused, a.err
}

// A role or state that functions have left is found, in one round trip unless the server refuses it.
func TestAsk(t *testing.T) {
	const reset, apply = "RESET ALL; ", "SET a TO b; "
	all, short := roleQuery+"; "+reset+stateQuery+"; "+apply+roleQuery, roleQuery+"; "+reset
	broken := answer{err: errors.New("lost")}
	for _, test := range []struct {
		name    string
		answers []answer
		startup bool // the startup has a role
		asked   []string
		want    Left
		fails   bool
	}{
		{name: "nothing", answers: []answer{{values: []string{"none", "", "none"}}}, asked: []string{all}},
		{name: "state", answers: []answer{{values: []string{"none", "pl", "none"}}}, asked: []string{all}, want: Left{Reason: rewrite.PinPrepare}},
		{name: "a role", answers: []answer{{values: []string{"a", "", "none"}}}, asked: []string{all}, want: Left{Role: "a"}},
		{name: "the startup's role", answers: []answer{{values: []string{"a", "", "a"}}}, startup: true, asked: []string{all}},
		{name: "RESET ROLE", answers: []answer{{values: []string{"none", "", "a"}}}, startup: true, asked: []string{all}},
		{name: "SET ROLE NONE", answers: []answer{{values: []string{"none", "", "a"}}}, asked: []string{all}, want: Left{Role: "none"}},
		{name: "no state that there is", answers: []answer{{values: []string{"none", "?", "none"}}}, asked: []string{all}, fails: true},
		{name: "too few rows", answers: []answer{{values: []string{"none", ""}}}, asked: []string{all}, fails: true},
		{name: "lost", answers: []answer{broken}, asked: []string{all}, fails: true},
		{name: "refused once", answers: []answer{{values: []string{"a"}, refused: true}, {values: []string{"a"}}, {values: []string{"none", "t", "none"}}},
			asked: []string{all, short, all}, want: Left{Reason: rewrite.PinTemp, Role: "a"}},
		{name: "refused twice", answers: []answer{{refused: true}, {refused: true}}, asked: []string{all, short}, fails: true},
		{name: "refused, then lost", answers: []answer{{refused: true}, broken}, asked: []string{all, short}, fails: true},
		{name: "refused three times", answers: []answer{{refused: true}, {values: []string{"a"}}, {refused: true}}, asked: []string{all, short, all}, fails: true},
	} {
		b := &backend{answers: test.answers}
		left, ok := Ask(b, Settings{Reset: reset, Apply: apply, HasStartupRole: test.startup})
		if ok == test.fails || ok && left != test.want || !slices.Equal(b.asked, test.asked) {
			t.Errorf("%s: %+v, %v, asked %q", test.name, left, ok, b.asked)
		}
	}
}

// A backend is marked by its plans, and by functions that run unseen unless the server says that there are none.
func TestChecks(t *testing.T) {
	planner, err := rewrite.New(rewrite.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	plan := func(sql string) *rewrite.Plan { return planner.Plan([]byte(sql)) }
	off := NewChecks(false)
	var trace StateTrace
	off.RecordPlan(&trace, plan("SELECT f()"), 0)
	off.RecordCall(&trace)
	off.RequireQuery(&trace)
	if off.Enabled() || trace.NeedsQuery() || off.IsDue(0, time.Now()) || off.Claim(0, time.Now()) {
		t.Error("disabled checks mark or ask")
	}

	c := NewChecks(true)
	marks := func(sql string, epoch uint64) bool {
		var trace StateTrace
		c.RecordPlan(&trace, plan(sql), epoch)
		return trace.NeedsQuery()
	}
	if !marks("SELECT 1", 0) || marks("BEGIN", 0) {
		t.Error("without an answer")
	}
	now := time.Now()
	if !c.IsDue(0, now) || !c.Claim(0, now) || c.Claim(0, now) {
		t.Error("one caller asks")
	}
	c.RecordAnswer(0, false, now)
	if marks("SELECT 1", 0) || !marks("SELECT f()", 0) || !marks("SELECT 1", 1) {
		t.Error("no function runs unseen")
	}
	if c.IsDue(0, now.Add(answerAge-1)) || !c.IsDue(0, now.Add(answerAge)) {
		t.Error("the answer is valid for a minute")
	}
	now = now.Add(answerAge)
	if !c.Claim(0, now) {
		t.Fatal("no claim")
	}
	c.RecordFault(now)
	if c.IsDue(1, now.Add(time.Millisecond)) || !c.IsDue(1, now.Add(time.Hour)) {
		t.Error("the pause after a fault")
	}
	c.RecordAnswer(0, true, now)
	if !marks("SELECT 1", 0) {
		t.Error("functions run unseen")
	}
	for _, mark := range []func(*StateTrace){c.RecordCall, c.RequireQuery} {
		var trace StateTrace
		if mark(&trace); !trace.NeedsQuery() {
			t.Error("not marked")
		}
	}
}
