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

// noteSettings is told of a statement that has succeeded: what it did to the
// session's settings, and to those that its transaction has staged.
func (s *session) noteSettings(st *rewrite.Statement, tag string) {
	switch tag {
	case "COMMIT", "PREPARE TRANSACTION":
		s.commitSettings()
		return
	case "ROLLBACK":
		if st != nil && st.Tx.Verb == rewrite.RollbackTo {
			s.staged.Return(st.Tx.Name)
			return
		}
		s.staged.Rollback()
		if s.before != nil { // a RESET that was answered here
			s.settings = s.before.carried
		}
		return
	case "SAVEPOINT":
		if st != nil {
			s.staged.Mark(st.Tx.Name)
		}
		return
	case "RELEASE":
		if st != nil {
			s.staged.Release(st.Tx.Name)
		}
		return
	}
	if st == nil {
		return
	}
	for _, c := range st.Changes {
		s.staged.Stage(s.merged(c))
		if c.Action == rewrite.DiscardAll { // it commits at once
			s.commitSettings()
		}
	}
}

// merged is a change with the value that it leaves: a server adds what a SET of
// DateStyle says to what is in force.
func (s *session) merged(c rewrite.Change) rewrite.Change {
	if c.Name != "datestyle" || c.SQL == "" {
		return c
	}
	reset := readDateStyle(dateStyle{}, s.startup.vals[c.Name], dateStyle{})
	was := readDateStyle(dateStyle{}, s.settings.vals[c.Name], dateStyle{})
	if last := s.staged.last(c.Name); last != nil {
		if was = reset; last.SQL != "" {
			was = readDateStyle(dateStyle{}, last.SQL, dateStyle{})
		}
	}
	now := readDateStyle(was, c.SQL, reset)
	c.SQL, c.Text = now.sql(), now.String()
	return c
}

// commitSettings makes what the transaction has staged the session's own, and returns it.
func (s *session) commitSettings() (done []rewrite.Change) {
	done = s.staged.Commit()
	if n := len(done); n > 0 {
		done = slices.DeleteFunc(done, func(c rewrite.Change) bool { return c.Name == unseen.Name })
		if s.b != nil && len(done) < n {
			s.b.unsure = true
		}
	}
	if len(done) > 0 {
		s.settings = s.srv.interned.share(s.settings.with(done, s.startup))
		if s.b != nil && s.b.applied != nil {
			s.b.applied = s.srv.interned.share(s.b.applied.with(done, noSettings))
		}
	}
	if s.before != nil { // what is answered here from now on is of the next transaction
		s.before.carried = s.settings
	}
	return done
}

// settleSettings ends the transaction at a ReadyForQuery that says so: what was
// staged since the last COMMIT or ROLLBACK was a transaction of its own.
func (s *session) settleSettings(failed bool) {
	var done []rewrite.Change
	if failed {
		s.staged.Rollback()
	} else {
		done = s.commitSettings()
	}
	s.believe(done)
}
