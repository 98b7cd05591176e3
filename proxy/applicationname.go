package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file handles application_name, which Sluice stores for each session: the server never gets the client's value. A
// function may still set the name at the backend, which reports it. At each ReadyForQuery, handleReadyForQuery calls
// adoptAppName, which makes the reported name the session's. A RESET inside a function changes nothing at the backend.

const appName = "application_name"

// appNames are the application names that functions have set in the current transaction.
type appNames struct {
	lastReported  *string // the last name that the backend reported in the block; nil: none
	leftAtBackend *string // the name that the transaction left at the backend, and that becomes the session's; nil: none
}

// canAdoptAppName reports whether an application_name that the server reports may become the session's.
func (s *session) canAdoptAppName() bool {
	return s.srv.cfg.Kind == Postgres && !s.dedicated && s.srv.treat.ForName(appName) == settings.LocalOnly
}

// adoptAppName makes an application name that the backend reports within a block the session's name. After a failed
// block the name is dropped with the block's settings.
func (s *session) adoptAppName() {
	b, n := s.b, &s.tx.names
	if b.status != 'T' || b.reported == b.idle && n.lastReported == nil || !s.canAdoptAppName() {
		return
	}
	was, _ := b.idle.Get(appName)
	is, _ := b.reported.Get(appName)
	switch {
	case is == was && n.lastReported != nil: // a function or ROLLBACK TO SAVEPOINT has restored the name
		if s.settings.ShownValue(appName) == *n.lastReported {
			s.settings.ResetLocalToStartup(appName, true)
		}
		n.lastReported = nil
	case is != was && (n.lastReported == nil || *n.lastReported != is):
		s.settings.StoreLocal(appName, is, true) // a function has set the name
		n.lastReported = &is
	}
}

// commitAppName must be called at a COMMIT before endLocalSettings. It forgets the application name that the block's
// functions set, if the session still has that name.
func (s *session) commitAppName() {
	if n := &s.tx.names; n.lastReported != nil && *n.lastReported == s.settings.ShownValue(appName) {
		n.lastReported = nil
	}
}

// recordAppName records that a transaction left the application name value at the backend, and returns the change that
// sets it. A name that a function has set takes precedence even over a later SET of the client.
func (s *session) recordAppName(value string) rewrite.SettingChange {
	if n := &s.tx.names; n.lastReported == nil || *n.lastReported != value {
		n.leftAtBackend = &value
	}
	return rewrite.SettingChange{Action: rewrite.Set, Name: appName, SQL: settings.QuoteLiteral(value), Text: value}
}

// endLocalSettings ends the transaction for settings that Sluice stores. An application name that the transaction left
// at the backend becomes the session's. settleSettings must be called before.
func (s *session) endLocalSettings(failed bool) {
	lasts := s.tx.names.leftAtBackend
	s.settings.EndLocalChanges(failed)
	if s.tx.names = (appNames{}); lasts != nil {
		s.settings.StoreLocal(appName, *lasts, false)
		s.settings.EndLocalChanges(false)
	}
}
