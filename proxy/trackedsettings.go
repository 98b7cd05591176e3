package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"

	"github.com/sluice-proxy/sluice/proxy/serversettings"
)

// This file records how a client's statements change settings, from a statement's command tag to its transaction's end.

// recordSettings records how a successful statement changed the session's settings and the staged (uncommitted)
// settings of its transaction. If Sluice does not know the statement, the command tag decides.
func recordSettings(s *session, _ *pendingReply, st *rewrite.Statement, tag []byte) {
	switch string(tag) {
	case "COMMIT", "PREPARE TRANSACTION":
		if !s.tx.job.IsCommitted() { // else the index job's result decides
			s.commitAllSettings()
		}
		return
	case "ROLLBACK":
		if st != nil && st.Tx.Verb == rewrite.RollbackTo {
			s.settings.RollBackTo(st.Tx.Name)
			return
		}
		s.settings.Rollback()
		return
	case "SAVEPOINT":
		if st != nil {
			s.settings.SetSavepoint(st.Tx.Name)
		}
		return
	case "RELEASE":
		if st != nil {
			s.settings.ReleaseSavepoint(st.Tx.Name)
		}
		return
	}
	if st == nil || tag == nil {
		return
	}
	for _, c := range st.Changes {
		s.settings.Stage(c)
		if c.Action == rewrite.DiscardAll { // DISCARD ALL commits at once
			s.commitSettings()
		}
	}
	if hasChange(st, rewrite.ResetAll, rewrite.DiscardAll) {
		s.settings.ResetAllLocal()
	}
}

// commitAllSettings makes all settings of a committed transaction the session's own, also those that Sluice enforces.
func (s *session) commitAllSettings() {
	s.commitSettings()
	s.tx.names.Commit(&s.settings)
	s.settings.EndLocalChanges(false)
}

// commitSettings makes the staged (uncommitted) settings of a transaction the session's own, and returns their changes.
// The backend already has these settings.
func (s *session) commitSettings() (done []rewrite.SettingChange) {
	done, unseen := s.settings.Commit()
	if s.b != nil && unseen {
		s.b.settings.RecordUnseen()
	}
	if s.b != nil {
		s.b.settings.RecordCommitted(done)
	}
	return done
}

// settleSettings ends the record of the transaction's settings at a ReadyForQuery. Changes still staged (uncommitted)
// are those of an implicit transaction. failed means that the client got an error. The session must still have its
// backend, whose reported parameters settleSettings reads. A second call in the same turn does nothing.
func (s *session) settleSettings(failed bool) {
	var done []rewrite.SettingChange
	if failed {
		s.settings.Staged.Rollback()
	} else {
		done = s.commitSettings()
	}
	s.adoptReportedSettings(done)
}

// adoptableNames returns the values of application_name that functions have set in the transaction. They may become the
// session's value. If Sluice ignores the server's reports of application_name, the result is nil.
func (s *session) adoptableNames() *serversettings.AppNames {
	if s.srv.cfg.Kind != Postgres || s.dedicated || s.srv.pool.treat.ForName(serversettings.AppName) != settings.LocalOnly {
		return nil
	}
	return &s.tx.names
}
