package proxy

import "github.com/sluice-proxy/sluice/rewrite"

// Settings as the statements of a client change them, from a statement's tag to the end of
// its transaction. settle, or replyReady before it, ends the transaction.

// settingsRan records what a statement that has succeeded did to the session's settings, and to those that its
// transaction has staged. Of an unknown statement the tag shows it. A COMMIT that has rolled back has the tag of a
// ROLLBACK.
func settingsRan(s *session, _ *owed, st *rewrite.Statement, tag []byte) {
	switch string(tag) {
	case "COMMIT", "PREPARE TRANSACTION":
		if !s.tx.job.Ends() { // else the job says what becomes of the transaction
			s.keepsSettings()
		}
		return
	case "ROLLBACK":
		if st != nil && st.Tx.Verb == rewrite.RollbackTo {
			s.settings.Return(st.Tx.Name)
			return
		}
		s.settings.Rollback()
		return
	case "SAVEPOINT":
		if st != nil {
			s.settings.Mark(st.Tx.Name)
		}
		return
	case "RELEASE":
		if st != nil {
			s.settings.Release(st.Tx.Name)
		}
		return
	}
	if st == nil || tag == nil {
		return
	}
	for _, c := range st.Changes {
		s.settings.Stage(c)
		if c.Action == rewrite.DiscardAll { // it commits at once
			s.commitSettings()
		}
	}
	if hasChange(st, rewrite.ResetAll, rewrite.DiscardAll) {
		s.settings.ResetKept()
	}
}

// keepsSettings makes what a transaction that is committed has set the session's own.
func (s *session) keepsSettings() {
	s.commitSettings()
	s.commitName()
	s.settings.EndKept(false)
}

// commitSettings makes what the transaction has staged the session's own, and returns it.
// The backend, if there is one, has these settings in force by now.
func (s *session) commitSettings() (done []rewrite.Change) {
	done, unseen := s.settings.Commit()
	if s.b != nil && unseen {
		s.b.unsure = true
	}
	if s.b != nil && s.b.applied != nil && len(done) > 0 {
		s.b.applied = s.srv.interned.Share(s.b.applied.With(done, s.srv.interned.None()))
	}
	return done
}

// settleSettings ends the transaction at a ReadyForQuery that says so: what was staged since the last COMMIT or
// ROLLBACK was a transaction of its own. failed says that an error was told. The backend is still there: its reports
// are believed. A second call in the same turn finds nothing staged.
func (s *session) settleSettings(failed bool) {
	var done []rewrite.Change
	if failed {
		s.settings.Staged.Rollback()
	} else {
		done = s.commitSettings()
	}
	s.believe(done)
}
