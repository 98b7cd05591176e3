package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file handles application_name, which Sluice stores for each session: the server never gets the client's value. A
// function may still set the name at the backend, which reports it. At each ReadyForQuery, replyReady calls heedName,
// which makes the reported name the session's. A RESET inside a function changes nothing at the backend.

const appName = "application_name"

// names are the application names that functions have set in the current transaction.
type names struct {
	seen  *string // the last name that the backend reported in the block; nil: none
	lasts *string // the name that the transaction left at the backend, and that becomes the session's; nil: none
}

// namesItself reports whether a name that the server reports may become the session's.
func (s *session) namesItself() bool {
	return s.srv.cfg.Kind == Postgres && !s.dedicated && s.srv.treat.Of(appName) == settings.Kept
}

// heedName makes a name that the backend reports within a block the session's. A failed block has no effect, since its
// settings are dropped.
func (s *session) heedName() {
	b, n := s.b, &s.tx.names
	if b.status != 'T' || b.reported == b.idle && n.seen == nil || !s.namesItself() {
		return
	}
	was, _ := b.idle.Get(appName)
	is, _ := b.reported.Get(appName)
	switch {
	case is == was && n.seen != nil: // a function or ROLLBACK TO SAVEPOINT has restored the name
		if s.settings.Shown(appName) == *n.seen {
			s.settings.KeepStartup(appName, true)
		}
		n.seen = nil
	case is != was && (n.seen == nil || *n.seen != is):
		s.settings.Keep(appName, is, true) // a function has set the name
		n.seen = &is
	}
}

// commitName must be called at a COMMIT before endKept. It forgets the name that the block's functions set, if that is
// still the session's name.
func (s *session) commitName() {
	if n := &s.tx.names; n.seen != nil && *n.seen == s.settings.Shown(appName) {
		n.seen = nil
	}
}

// believeName records that a transaction left the name value at the backend, and returns the change that sets it. If
// the client's own SET came after the function's, the function's name still wins.
func (s *session) believeName(value string) rewrite.Change {
	if n := &s.tx.names; n.seen == nil || *n.seen != value {
		n.lasts = &value
	}
	return rewrite.Change{Action: rewrite.Set, Name: appName, SQL: settings.QuoteLiteral(value), Text: value}
}

// endKept ends the transaction for settings that Sluice stores. A name that it left at the backend becomes the
// session's. settleSettings must be called before.
func (s *session) endKept(failed bool) {
	lasts := s.tx.names.lasts
	s.settings.EndKept(failed)
	if s.tx.names = (names{}); lasts != nil {
		s.settings.Keep(appName, *lasts, false)
		s.settings.EndKept(false)
	}
}
