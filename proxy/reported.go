package proxy

import (
	"reflect"
	"slices"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A client is told of parameters in front of a ReadyForQuery, as PostgreSQL does it:
// what a backend reports is noted, and told where it differs from what its client
// knows. So a client knows the truth too when its backend was lost or replaced.

// noteParameter is told of a ParameterStatus, wherever it comes from. It is noted on the
// backend, and told to a client by tellParameters only. Reports are never changed: a new
// value makes new ones.
func (b *backend) noteParameter(frame []byte) {
	name, rest, ok := wire.CString(frame[wire.HeaderLen:])
	value, _, ok2 := wire.CString(rest)
	if ok && ok2 {
		b.noteReading(string(name), string(value))
	}
	if ok && ok2 && b.reported != nil {
		b.reported = b.reported.With(string(name), string(value))
	}
}

// mayTell reports whether the end of this turn may have something to tell of parameters. It
// is asked at every ReadyForQuery, and mostly answered by two comparisons of pointers. A
// backend is lent.
func (s *session) mayTell() bool {
	return s.b.reported != s.settings.Reported || s.settings.InForce != s.settings.ReportedFor || s.settings.Unsettled()
}

// tellParameters tells the client of the parameters that are not as it knows them, in front
// of a ReadyForQuery, whoever makes that one. The truth is found in this order:
//
// - in a failed block in which a RESET was answered here, the values that it took back;
// - in another one at a cluster, those of the newest savepoint, or those that were in force before the block;
// - while a backend is kept, and in a block, its own reports;
// - else the session's settings, as a backend that has them reports, or would.
func (s *session) tellParameters() error {
	now := s.settings.Reported
	if undone := s.settings.Undone(); undone != nil && s.status() == 'E' {
		now, s.settings.ReportedFor = s.view(undone), undone
	} else if s.blockUndone() {
		now, s.settings.ReportedFor = s.beforeBlock(), nil
	} else if s.b != nil && (s.b.status != 'I' || s.keeps()) {
		now, s.settings.ReportedFor = s.inForce(), nil
	} else if s.settings.ReportedFor != s.settings.InForce || s.b != nil && s.b.reported != s.settings.Reported {
		now, s.settings.ReportedFor = s.view(s.settings.InForce), s.settings.InForce
	}
	if now == s.settings.Reported {
		return nil
	}
	for _, p := range now.News(s.settings.Reported) {
		if s.settings.TellsNews(p.Lower) {
			continue // told where it is set
		}
		if err := s.passSpan(wire.AppendStrings(nil, wire.ParameterStatus, p.Name, p.Value)); err != nil {
			return err
		}
	}
	s.settings.Reported = now
	return nil
}

// blockUndone reports whether a block has failed at a cluster, with no savepoint of the server's: all that it
// has set is undone there by then, whether the cluster reports it at once or behind the ROLLBACK.
func (s *session) blockUndone() bool {
	return s.srv.cfg.Kind == DSQL && s.b != nil && s.b.status == 'E' && s.status() == 'E' && !s.settings.Marked()
}

// beforeBlock are the reports of the backend as they were in front of the block that has failed, or those that a
// savepoint which Sluice emulates returns to.
func (s *session) beforeBlock() *settings.Reports {
	if n := len(s.tx.marks); n > 0 && s.tx.marks[n-1].reports != nil {
		return s.tx.marks[n-1].reports
	}
	if s.tx.stood == s.settings.InForce {
		return s.srv.sharedReports.Share(s.b.idle)
	}
	return s.made(s.settings.InForce) // a part of the request has committed something
}

// view are the reports of a server on which a client's settings, of, are in force. A
// backend that has them knows; what one has reported is remembered with the settings.
// Without one the reports are made of what is usual and what the client has set.
func (s *session) view(of *settings.Values) *settings.Reports {
	if b := s.b; b != nil && b.applied != nil && b.applied.Equal(of) {
		b.reported = s.srv.sharedReports.Share(b.reported)
		of.Seen.Store(b.reported)
		return b.reported
	}
	if r := of.Seen.Load(); r != nil {
		return r
	}
	return s.made(of)
}

// made are reports that are made of what is usual and what the client has set.
func (s *session) made(of *settings.Values) *settings.Reports {
	r := s.srv.params()
	for name, value := range of.Shown {
		if name == "datestyle" {
			value = asReported(s.srv.params(), name, value)
		}
		if was, ok := r.Get(name); ok && was != value && of.SQL[name] != "" {
			r = r.With(name, value)
		}
	}
	return s.srv.sharedReports.Share(r)
}

// inForce are the reports of the backend that is lent, with the client's startup values
// where the server has its own since a RESET: see restoreStartup. Outside a transaction
// they are corrected by what the next group of settings will change: the client is to see
// its settings as if they were in force already.
func (s *session) inForce() *settings.Reports {
	s.b.reported = s.srv.sharedReports.Share(s.b.reported)
	now := s.b.reported
	if len(s.settings.Staged.Changes) == 0 && (s.b.applied == nil || s.b.applied.Equal(s.settings.InForce)) {
		return now
	}
	for _, c := range s.unrestored() {
		reset, _ := s.b.dialled.Get(c.Name)
		if is, _ := now.Get(c.Name); is != reset {
			continue // a block that has failed has taken the RESET back
		}
		now = now.Showing(c.Name, asReported(s.srv.params(), c.Name, s.settings.Startup.Shown[c.Name]))
	}
	if len(s.settings.Staged.Changes) == 0 && s.b.status == 'I' { // the session's go to the server with what comes next
		for name := range s.b.applied.SQL {
			if usual, ok := s.b.dialled.Get(name); ok && s.settings.InForce.SQL[name] == "" {
				now = now.Showing(name, usual)
			}
		}
		for name, sql := range s.settings.InForce.SQL {
			if value := s.settings.InForce.Shown[name]; value != "" && s.b.applied.SQL[name] != sql {
				now = now.Showing(name, asReported(s.srv.params(), name, value))
			}
		}
	}
	return s.srv.sharedReports.Share(now)
}

// fixed are reported parameters that nobody sets.
var fixed = []string{"in_hot_standby", "integer_datetimes", "is_superuser", "server_encoding", "server_version", "session_authorization"}

// believe compares, where a transaction has ended, what its backend reports with what its
// statements say: what a function has set is a setting of the session too, and what a
// server has made of a value is that value. Session and backend are brought in step with
// it, and the comparison begins anew at these reports.
//
// done was set in that transaction: the server does not report again what it made of the
// same value before.
func (s *session) believe(done []rewrite.Change) {
	b := s.b
	if b.reported == b.idle && len(done) == 0 || b.applied == nil {
		return
	}
	was := b.idle
	for _, c := range done {
		was = was.Without(c.Name)
	}
	var of, ofSession []rewrite.Change
	for _, p := range b.reported.News(was) {
		if p.Lower == appName && s.namesItself() {
			of = append(of, s.believeName(p.Value)) // the next transaction has it reset
			continue
		}
		// Of a list the report is not the text that a SET takes; what Sluice keeps is not
		// the server's to say.
		if slices.Contains(fixed, p.Lower) || rewrite.ListSettings[p.Lower] || s.srv.treat.Of(p.Lower) != settings.Carried {
			continue
		}
		sql, given := b.applied.SQL[p.Lower]
		expected := b.applied.Shown[p.Lower]
		if !given {
			expected, _ = b.dialled.Get(p.Lower)
		}
		if p.Value == expected {
			continue
		}
		c := rewrite.Change{Action: rewrite.Set, Name: p.Lower, SQL: settings.QuoteLiteral(p.Value), Text: p.Value}
		of = append(of, c)
		// The session may have set another value here meanwhile, which the backend does not
		// know yet: that one stays.
		if s.settings.InForce.SQL[p.Lower] == sql {
			ofSession = append(ofSession, c)
		}
	}
	if len(of) > 0 {
		b.applied = s.srv.interned.Share(b.applied.With(of, s.srv.interned.None()))
		s.settings.Adopt(ofSession)
	}
	s.noteRole()
	b.idle = b.reported
}

// noteRole keeps the backend of a session whose role a function has changed: what the
// session may do depends on the role, and no other backend has that. Where no more sessions
// may keep one, this session ends, and the backend with it.
func (s *session) noteRole() {
	b := s.b
	if s.keeps() && !s.found {
		return
	}
	for _, name := range []string{"is_superuser", "session_authorization"} {
		was, _ := b.idle.Get(name)
		if is, _ := b.reported.Get(name); is == was || name == "is_superuser" && s.srv.asksBehind && b.left.Due() {
			continue // lookBehind asks for the role itself
		}
		s.pinFound(rewrite.PinRole)
		return
	}
}

// pinFound keeps the backend for what was found there behind a transaction, and reports whether it may: else the
// session ends behind its turn, and the backend with it.
func (s *session) pinFound(why rewrite.Pin) bool {
	// A plan of two statements makes a pin that no failure takes back: see pin.
	if s.pin(&rewrite.Plan{Pin: why, Statements: make([]rewrite.Statement, 2)}) != nil {
		s.b.suspect, s.pinLost = true, true
		s.srv.metrics.Refused(metrics.FeatureSetting)
		return false
	}
	return true
}

// params are the parameters of the backend dialled last, completed by what clients insist
// on. They are made once for each such backend, which the map tells that they come from.
func (srv *Server) params() *settings.Reports {
	seen := srv.backends.Params()
	r := srv.reports.Load()
	if r != nil && reflect.ValueOf(r.From).Pointer() == reflect.ValueOf(seen).Pointer() {
		return r
	}
	r = settings.Completed(seen)
	srv.reports.Store(r)
	return r
}
