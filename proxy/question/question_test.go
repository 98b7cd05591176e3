package question

import (
	"testing"
	"time"
)

// Every question says when it is asked and what holds meanwhile, and none takes a conflict, a loss or
// a timeout for an answer.
func TestTable(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, q := range All {
		if q.Name == "" || q.When == "" || q.Meanwhile == "" || names[q.Name] {
			t.Errorf("%+v", q)
		}
		names[q.Name] = true
		for _, f := range []Fault{Conflict, Loss, Timeout} {
			if q.On[f] == No {
				t.Errorf("%s: fault %d is an answer", q.Name, f)
			}
		}
		if q.On[Loss] == Again || q.On[Timeout] == Again {
			t.Errorf("%s is asked again on a backend that was given up", q.Name)
		}
	}
}

// What a server cannot say now is no refusal.
func TestClassify(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]Fault{"40001": Conflict, "40P01": Timeout, "57014": Timeout, "57P01": Timeout, "53300": Timeout, "55P03": Timeout,
		"XX000": Timeout, "54000": Timeout, "58000": Timeout, "08006": Timeout, "0A000": Refusal, "42501": Refusal, "42P01": Refusal, "55000": Refusal, "22012": Refusal, "": Refusal} {
		if got := Classify(state); got != want {
			t.Errorf("%s: %d, want %d", state, got, want)
		}
	}
}

// One of those to whom a question is due asks it. Behind faults the pauses grow to a minute, an answer
// ends them, and a claim that nobody ends does not hold for ever.
func TestPace(t *testing.T) {
	t.Parallel()
	var p Schedule
	now := time.Unix(1_000_000, 0)
	if !p.IsDue(now) || !p.Claim(now) || p.IsDue(now) || p.Claim(now) {
		t.Fatal("the first question")
	}
	if p.IsDue(now.Add(claimed-1)) || !p.IsDue(now.Add(claimed)) {
		t.Error("a claim that nobody ends")
	}
	p.Unclaim()
	if !p.Claim(now) {
		t.Error("behind one who did not ask")
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		if got := p.RecordFault(now); got != want*time.Second || p.IsDue(now.Add(got-1)) || !p.IsDue(now.Add(got)) {
			t.Errorf("a pause of %v, want %d s", got, want)
		}
	}
	for range 1000 {
		if p.RecordFault(now) != MostPause {
			t.Fatal("the pause does not stay")
		}
	}
	p.RecordAnswer(now, Age)
	if p.IsDue(now.Add(Age-1)) || !p.IsDue(now.Add(Age)) {
		t.Error("an answer does not hold for its age")
	}
	if p.RecordFault(now) != FirstPause {
		t.Error("an answer does not end the pauses")
	}
	if p.RecordAnswer(now, 0); p.IsDue(now.Add(100 * 365 * 24 * time.Hour)) {
		t.Error("an answer without an age becomes old")
	}
}
