package settings

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Staged are the changes of settings that a transaction has made and that
// its end keeps or drops, with a mark for each savepoint. It is a value: a copy
// taken by Snapshot stays what it is.
type Staged struct {
	// Changes are in the order in which their statements made them.
	Changes []rewrite.Change
	marks   []mark
	bytes   int // of Changes
}

// mark is how many changes there were when a savepoint was set.
type mark struct {
	name           string
	changes, bytes int
}

// Stage adds a change that its statement has made.
func (x *Staged) Stage(c rewrite.Change) {
	x.Changes = append(x.Changes, c)
	x.bytes += ChangeBytes(&c)
}

// ChangeBytes is about what a change takes in memory while it is staged.
func ChangeBytes(c *rewrite.Change) int {
	return 2*settingCost + len(c.Name) + len(c.SQL) + len(c.Text)
}

// Bytes is about what the changes and savepoints take in memory.
func (x *Staged) Bytes() int { return x.bytes + len(x.marks)*settingCost }

// Commit ends the transaction and returns what it leaves behind: SET LOCAL nothing.
func (x *Staged) Commit() (done []rewrite.Change) {
	for _, c := range x.Changes {
		if c.Action != rewrite.SetLocal {
			done = append(done, c)
		}
	}
	*x = Staged{}
	return done
}

// Last is the change that says what a setting is now; nil when none does.
func (x *Staged) Last(name string) *rewrite.Change {
	for i := len(x.Changes) - 1; i >= 0; i-- {
		if c := &x.Changes[i]; c.Name == name || c.Action == rewrite.ResetAll || c.Action == rewrite.DiscardAll {
			return c
		}
	}
	return nil
}

// MayHave reports whether a setting may have been changed: by name, or by nobody knows what.
func (x *Staged) MayHave(name string) bool {
	return slices.ContainsFunc(x.Changes, func(c rewrite.Change) bool { return c.Name == name || c.Name == Unseen.Name })
}

// Rollback ends the transaction and drops what it changed.
func (x *Staged) Rollback() { *x = Staged{} }

// Mark is SAVEPOINT.
func (x *Staged) Mark(name string) {
	x.marks = append(x.marks, mark{name, len(x.Changes), x.bytes})
}

// Release is RELEASE: what was changed since belongs to the block around.
func (x *Staged) Release(name string) {
	if i := x.find(name); i >= 0 {
		x.marks = slices.Clip(x.marks[:i])
	}
}

// Return is ROLLBACK TO: what was changed since the savepoint is dropped, and the
// savepoint stays.
func (x *Staged) Return(name string) {
	if i := x.find(name); i >= 0 {
		m := x.marks[i]
		x.Changes, x.bytes, x.marks = slices.Clip(x.Changes[:m.changes]), m.bytes, slices.Clip(x.marks[:i+1])
	}
}

// find is the newest savepoint of that name; -1 when there is none.
func (x *Staged) find(name string) int {
	for i, m := range slices.Backward(x.marks) {
		if m.name == name {
			return i
		}
	}
	return -1
}

// Snapshot is a copy that later changes do not touch.
func (x *Staged) Snapshot() Staged {
	return Staged{slices.Clip(x.Changes), slices.Clip(x.marks), x.bytes}
}

// Unseen stands among staged changes for what a function may have set.
var Unseen = rewrite.Change{Action: rewrite.Set, Name: "*"}
