package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// stagedSettings are the changes of settings that a transaction has made and that
// its end keeps or drops, with a mark for each savepoint. It is a value: a copy
// taken by snapshot stays what it is.
type stagedSettings struct {
	changes []rewrite.Change
	marks   []settingsMark
}

// settingsMark is how many changes there were when a savepoint was set.
type settingsMark struct {
	name    string
	changes int
}

// Stage adds a change that its statement has made.
func (x *stagedSettings) Stage(c rewrite.Change) { x.changes = append(x.changes, c) }

// Commit ends the transaction and returns what it leaves behind: SET LOCAL nothing.
func (x *stagedSettings) Commit() (done []rewrite.Change) {
	for _, c := range x.changes {
		if c.Action != rewrite.SetLocal {
			done = append(done, c)
		}
	}
	*x = stagedSettings{}
	return done
}

// last is the change that says what a setting is now; nil when none does.
func (x *stagedSettings) last(name string) *rewrite.Change {
	for i := len(x.changes) - 1; i >= 0; i-- {
		if c := &x.changes[i]; c.Name == name || c.Action == rewrite.ResetAll || c.Action == rewrite.DiscardAll {
			return c
		}
	}
	return nil
}

// mayHave reports whether a setting may have been changed: by name, or by nobody knows what.
func (x *stagedSettings) mayHave(name string) bool {
	return slices.ContainsFunc(x.changes, func(c rewrite.Change) bool { return c.Name == name || c.Name == unseen.Name })
}

// Rollback ends the transaction and drops what it changed.
func (x *stagedSettings) Rollback() { *x = stagedSettings{} }

// Mark is SAVEPOINT.
func (x *stagedSettings) Mark(name string) {
	x.marks = append(x.marks, settingsMark{name, len(x.changes)})
}

// Release is RELEASE: what was changed since belongs to the block around.
func (x *stagedSettings) Release(name string) {
	if i := x.find(name); i >= 0 {
		x.marks = slices.Clip(x.marks[:i])
	}
}

// Return is ROLLBACK TO: what was changed since the savepoint is dropped, and the
// savepoint stays.
func (x *stagedSettings) Return(name string) {
	if i := x.find(name); i >= 0 {
		x.changes, x.marks = slices.Clip(x.changes[:x.marks[i].changes]), slices.Clip(x.marks[:i+1])
	}
}

// find is the newest savepoint of that name; -1 when there is none.
func (x *stagedSettings) find(name string) int {
	for i, m := range slices.Backward(x.marks) {
		if m.name == name {
			return i
		}
	}
	return -1
}

// snapshot is a copy that later changes do not touch.
func (x *stagedSettings) snapshot() stagedSettings {
	return stagedSettings{slices.Clip(x.changes), slices.Clip(x.marks)}
}

// unseen stands among staged changes for what a function may have set.
var unseen = rewrite.Change{Action: rewrite.Set, Name: "*"}
