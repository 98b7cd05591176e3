package settings

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Staged are the changes of settings in a transaction, whose end applies or drops them. marks has the number of
// changes at each savepoint. A copy by Snapshot does not change.
type Staged struct {
	// Changes has the changes of settings in the order of their statements.
	Changes []rewrite.SettingChange
	marks   []stagedSavepoint
	bytes   int // of Changes
}

// stagedSavepoint is the number of staged changes at a savepoint, and their bytes.
type stagedSavepoint struct {
	name           string
	changes, bytes int
}

// Stage adds a change of a setting to the transaction.
func (x *Staged) Stage(c rewrite.SettingChange) {
	x.Changes = append(x.Changes, c)
	x.bytes += ChangeBytes(&c)
}

// ChangeBytes returns the approximate memory of one staged change.
func ChangeBytes(c *rewrite.SettingChange) int {
	return 2*settingCost + len(c.Name) + len(c.SQL) + len(c.Text)
}

// Bytes returns the approximate memory of the staged changes and savepoints.
func (x *Staged) Bytes() int { return x.bytes + len(x.marks)*settingCost }

// Commit ends the transaction. Commit returns the changes that outlast the transaction, without SET LOCAL.
func (x *Staged) Commit() (done []rewrite.SettingChange) {
	for _, c := range x.Changes {
		if c.Action != rewrite.SetLocal {
			done = append(done, c)
		}
	}
	*x = Staged{}
	return done
}

// LastChange returns the staged change that determines a setting's current value, or nil for none.
func (x *Staged) LastChange(name string) *rewrite.SettingChange {
	for i := len(x.Changes) - 1; i >= 0; i-- {
		if c := &x.Changes[i]; c.Name == name || c.Action == rewrite.ResetAll || c.Action == rewrite.DiscardAll {
			return c
		}
	}
	return nil
}

// MayHaveChanged reports whether a staged change concerns a setting, by its name or because a function may have set any
// setting.
func (x *Staged) MayHaveChanged(name string) bool {
	return slices.ContainsFunc(x.Changes, func(c rewrite.SettingChange) bool { return c.Name == name || c.Name == UnseenChange.Name })
}

// Rollback ends the transaction and drops its changes of settings.
func (x *Staged) Rollback() { *x = Staged{} }

// SetSavepoint records a SAVEPOINT: the number of changes so far.
func (x *Staged) SetSavepoint(name string) {
	x.marks = append(x.marks, stagedSavepoint{name, len(x.Changes), x.bytes})
}

// ReleaseSavepoint performs RELEASE SAVEPOINT: changes since the savepoint belong to the enclosing block.
func (x *Staged) ReleaseSavepoint(name string) {
	if i := x.findSavepoint(name); i >= 0 {
		x.marks = slices.Clip(x.marks[:i])
	}
}

// RollBackTo performs ROLLBACK TO SAVEPOINT: it drops the changes since the savepoint, which stays.
func (x *Staged) RollBackTo(name string) {
	if i := x.findSavepoint(name); i >= 0 {
		m := x.marks[i]
		x.Changes, x.bytes, x.marks = slices.Clip(x.Changes[:m.changes]), m.bytes, slices.Clip(x.marks[:i+1])
	}
}

// findSavepoint returns the index of the newest savepoint with a name, or -1.
func (x *Staged) findSavepoint(name string) int {
	for i, m := range slices.Backward(x.marks) {
		if m.name == name {
			return i
		}
	}
	return -1
}

// Snapshot returns a copy of the staged changes, which later changes do not affect.
func (x *Staged) Snapshot() Staged {
	return Staged{slices.Clip(x.Changes), slices.Clip(x.marks), x.bytes}
}

// UnseenChange is the staged change that means that a function may have set any setting.
var UnseenChange = rewrite.SettingChange{Action: rewrite.Set, Name: "*"}
