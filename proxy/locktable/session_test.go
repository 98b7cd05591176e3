package locktable

import (
	"testing"
)

// A session counts its takings of a lock, and the last unlock releases the row.
func TestTakings(t *testing.T) {
	m := newMemory(t)
	table := New(m, terms, nil)
	l := table.NewHeld()
	if l.HoldsAny() || l.TakeAgain("a") || l.Count() != 0 {
		t.Fatal("a session without locks has one")
	}
	before := l.Changes()
	l.AddTaken(take(t, table, "a"))
	if !l.HoldsAny() || !l.IsTakenOnce("a") || l.Count() != 1 || l.Changes() == before {
		t.Fatal("the lock that was taken is not counted")
	}
	if !l.TakeAgain("a") || l.IsTakenOnce("a") {
		t.Error("a lock that the session has is not taken again")
	}
	if over, ok := l.Unlock("a"); !ok || len(over) != 0 {
		t.Errorf("the first of two unlocks: %v, %v", over, ok)
	}
	before = l.Changes()
	over, ok := l.Unlock("a")
	if !ok || len(over) != 1 || over[0].Name != "a" || l.HoldsAny() || l.Changes() == before {
		t.Errorf("the last unlock: %v, %v", over, ok)
	}
	if over, ok := l.Unlock("a"); ok || over != nil {
		t.Errorf("an unlock of a lock that is not held: %v, %v", over, ok)
	}
	if table.Release(over, ReleaseTimeout, false); m.released != 1 || len(m.rows) != 0 && m.rows["a"].Owner != "" {
		t.Errorf("released %d times, rows %v", m.released, m.rows)
	}
}

// A release waits for the end of a transaction with a fence or DDL. Where DDL may be running unobserved, the rows stay.
func TestDeferredReleases(t *testing.T) {
	for name, prepare := range map[string]func(*Held){
		"fence": func(l *Held) { l.RecordFence() },
		"ddl": func(l *Held) {
			if ok, err := l.ExtendForDDL(t.Context()); !ok {
				t.Fatal(err)
			}
		},
	} {
		m := newMemory(t)
		table := New(m, terms, nil)
		l := table.NewHeld()
		l.AddTaken(take(t, table, "a"))
		l.AddTaken(take(t, table, "b"))
		prepare(l)
		if got := l.HasDDL(); got != (name == "ddl") {
			t.Errorf("%s: HasDDL is %v", name, got)
		}
		if over := l.UnlockAll(); over != nil || l.HoldsAny() {
			t.Errorf("%s: released within the transaction: %v", name, over)
		}
		if !l.TakeAgain("b") {
			t.Errorf("%s: a lock whose release waits cannot be taken again", name)
		}
		if over := l.EndTransaction(); len(over) != 1 || over[0].Name != "a" {
			t.Errorf("%s: released at the end: %v", name, over)
		}
		if over := l.Close(); len(over) != 1 || over[0].Name != "b" {
			t.Errorf("%s: released at the session's end: %v", name, over)
		}
	}
	m := newMemory(t)
	table := New(m, terms, nil)
	l := table.NewHeld()
	l.AddTaken(take(t, table, "a"))
	if ok, err := l.ExtendForDDL(t.Context()); !ok {
		t.Fatal(err)
	}
	l.RecordBackendGivenUp()
	if over := l.UnlockAll(); over != nil {
		t.Errorf("released while DDL may be running: %v", over)
	}
	l.AddTaken(take(t, table, "b"))
	if over := l.Close(); over != nil {
		t.Errorf("released at the end while DDL may be running: %v", over)
	}
}

// A session that has asked for no lock has a nil Held.
func TestNilHeld(t *testing.T) {
	var l *Held
	over, ok := l.Unlock("a")
	if l.HoldsAny() || l.HasDDL() || l.TakeAgain("a") || l.Count() != 0 || ok || over != nil || l.UnlockAll() != nil || l.EndTransaction() != nil || l.Close() != nil {
		t.Error("a nil Held has a lock")
	}
}
