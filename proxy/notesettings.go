package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

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
	reset := settings.ReadDateStyle(settings.DateStyle{}, s.startup.SQL[c.Name], settings.DateStyle{})
	was := settings.ReadDateStyle(settings.DateStyle{}, s.settings.SQL[c.Name], settings.DateStyle{})
	if last := s.staged.Last(c.Name); last != nil {
		if was = reset; last.SQL != "" {
			was = settings.ReadDateStyle(settings.DateStyle{}, last.SQL, settings.DateStyle{})
		}
	}
	now := settings.ReadDateStyle(was, c.SQL, reset)
	c.SQL, c.Text = now.SQL(), now.String()
	return c
}

// commitSettings makes what the transaction has staged the session's own, and returns it.
func (s *session) commitSettings() (done []rewrite.Change) {
	done = s.staged.Commit()
	if n := len(done); n > 0 {
		done = slices.DeleteFunc(done, func(c rewrite.Change) bool { return c.Name == settings.Unseen.Name })
		if s.b != nil && len(done) < n {
			s.b.unsure = true
		}
	}
	if len(done) > 0 {
		s.settings = s.srv.interned.Share(s.settings.With(done, s.startup))
		if s.b != nil && s.b.applied != nil {
			s.b.applied = s.srv.interned.Share(s.b.applied.With(done, settings.None))
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
