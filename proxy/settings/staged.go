package settings

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Staged are the setting changes of a transaction, which its end applies or drops, with a mark for
// each savepoint. It is a value: a copy taken by Snapshot does not change.
type Staged struct {
	// Changes are in the order in which their statements made them.
	Changes []rewrite.Change
	marks   []mark
	bytes   int // of Changes
}

// mark is the number of changes at a savepoint.
type mark struct {
	name           string
	changes, bytes int
}

// Stage adds a change.
func (x *Staged) Stage(c rewrite.Change) {
	x.Changes = append(x.Changes, c)
	x.bytes += ChangeBytes(&c)
}

// ChangeBytes returns the approximate memory of a staged change.
func ChangeBytes(c *rewrite.Change) int {
	return 2*settingCost + len(c.Name) + len(c.SQL) + len(c.Text)
}

// Bytes returns the approximate memory of the changes and savepoints.
func (x *Staged) Bytes() int { return x.bytes + len(x.marks)*settingCost }

// Commit ends the transaction and returns its lasting changes, without SET LOCAL.
func (x *Staged) Commit() (done []rewrite.Change) {
	for _, c := range x.Changes {
		if c.Action != rewrite.SetLocal {
			done = append(done, c)
		}
	}
	*x = Staged{}
	return done
}

// Last returns the change that determines a setting's current value, nil for none.
func (x *Staged) Last(name string) *rewrite.Change {
	for i := len(x.Changes) - 1; i >= 0; i-- {
		if c := &x.Changes[i]; c.Name == name || c.Action == rewrite.ResetAll || c.Action == rewrite.DiscardAll {
			return c
		}
	}
	return nil
}

// MayHave reports whether a setting may have changed, by its name or by a function.
func (x *Staged) MayHave(name string) bool {
	return slices.ContainsFunc(x.Changes, func(c rewrite.Change) bool { return c.Name == name || c.Name == Unseen.Name })
}

// Rollback ends the transaction and drops its changes.
func (x *Staged) Rollback() { *x = Staged{} }

// Mark performs SAVEPOINT.
func (x *Staged) Mark(name string) {
	x.marks = append(x.marks, mark{name, len(x.Changes), x.bytes})
}

// Release performs RELEASE: later changes belong to the enclosing block.
func (x *Staged) Release(name string) {
	if i := x.find(name); i >= 0 {
		x.marks = slices.Clip(x.marks[:i])
	}
}

// Return performs ROLLBACK TO: it drops later changes, and the savepoint stays.
func (x *Staged) Return(name string) {
	if i := x.find(name); i >= 0 {
		m := x.marks[i]
		x.Changes, x.bytes, x.marks = slices.Clip(x.Changes[:m.changes]), m.bytes, slices.Clip(x.marks[:i+1])
	}
}

// find returns the index of the newest savepoint of a name, or -1.
func (x *Staged) find(name string) int {
	for i, m := range slices.Backward(x.marks) {
		if m.name == name {
			return i
		}
	}
	return -1
}

// Snapshot returns a copy that later changes do not affect.
func (x *Staged) Snapshot() Staged {
	return Staged{slices.Clip(x.Changes), slices.Clip(x.marks), x.bytes}
}

// Unseen is the staged change for settings that a function may have set.
var Unseen = rewrite.Change{Action: rewrite.Set, Name: "*"}
