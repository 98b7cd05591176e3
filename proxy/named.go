package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// application_name where Sluice holds it for each session, and the server never sees the client's. A function, or a
// set_config with arguments that Sluice cannot compute, sets the name at the backend, which reports it.
// replyReady calls heedName at each ReadyForQuery: the reported name becomes the session's. A RESET inside
// a function changes nothing at the backend, so the backend reports nothing.

const appName = "application_name"

// names are the application names that functions have set in a transaction. The zero value has none.
type names struct {
	seen  *string // the last one that the backend has reported inside the block; nil for none
	lasts *string // the one that the transaction has left at the backend, and that becomes the session's; nil for none
}

// namesItself reports whether the server's application_name may become the session's.
func (s *session) namesItself() bool {
	return s.srv.cfg.Kind == Postgres && !s.dedicated && s.srv.treat.Of(appName) == settings.Kept
}

// heedName compares the name that the backend reports in a block with the one in front of it. In a block
// that has failed nothing of it holds: the settings say so.
func (s *session) heedName() {
	b, n := s.b, &s.tx.names
	if b.status != 'T' || b.reported == b.idle && n.seen == nil || !s.namesItself() {
		return
	}
	was, _ := b.idle.Get(appName)
	is, _ := b.reported.Get(appName)
	switch {
	case is == was && n.seen != nil: // a function, or a return to a savepoint, has taken it back
		if s.settings.Shown(appName) == *n.seen {
			s.settings.KeepStartup(appName, true)
		}
		n.seen = nil
	case is != was && (n.seen == nil || *n.seen != is):
		s.settings.Keep(appName, is, true) // the server has taken it
		n.seen = &is
	}
}

// commitName is told of a COMMIT, in front of endKept or what stands for it: whether the client has set another
// name behind what the block's functions have set is known until then.
func (s *session) commitName() {
	if n := &s.tx.names; n.seen != nil && *n.seen == s.settings.Shown(appName) {
		n.seen = nil
	}
}

// believeName notes that a transaction has ended, and has left a name at the backend. It returns the
// change that this was there. Of the client's own SET behind the function's, the former holds.
func (s *session) believeName(value string) rewrite.Change {
	if n := &s.tx.names; n.seen == nil || *n.seen != value {
		n.lasts = &value
	}
	return rewrite.Change{Action: rewrite.Set, Name: appName, SQL: settings.QuoteLiteral(value), Text: value}
}

// endKept ends a transaction for what Sluice has answered, and makes the name that it has left at its
// backend the session's. settleSettings goes in front.
func (s *session) endKept(failed bool) {
	lasts := s.tx.names.lasts
	s.settings.EndKept(failed)
	if s.tx.names = (names{}); lasts != nil {
		s.settings.Keep(appName, *lasts, false)
		s.settings.EndKept(false)
	}
}
