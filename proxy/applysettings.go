package proxy

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The settings of a session at its backend: brought there before a transaction begins (applySettings, called by
// ensureBackend), and put back to the client's startup values behind a RESET, for which a server has values of its own
// (restoreStartup, restoreInGroup). A replay uses syncSettings alone.

// mostSettingLosses is how many backends may be lost in a row while their settings are applied: more are no accident.
const mostSettingLosses = 3

// applySettings brings the backend's settings to the session's, in a Sync group of its own, and waits for the answer:
// what follows must not run under others'. A backend that is lost meanwhile has got nothing of the client's: the next
// is taken. With an error none of the turn has been sent, and the session has been moved to where the error leaves it;
// inBlock says that a BEGIN was answered before, which then is kept in unserved.
func (s *session) applySettings(inBlock bool) error {
	e := lost
	if inBlock {
		e = lostInBlock
		defer func() {
			if s.b == nil {
				s.unserved, s.deferredBegin = s.deferredBegin, nil
			}
		}()
	}
	refusal, err := s.fitBackend()
	clientErr := error(errBackendLost)
	for losses := 1; err != nil && !soundAfter(err) && !s.pinned && losses < mostSettingLosses; losses++ {
		s.srv.metrics.BackendLost(metrics.LostIdle)
		s.dropBackend(reservoir.Broken)
		conn, berr := s.borrow()
		if berr != nil {
			clientErr = s.unlent(berr)
			break
		}
		s.attach(conn)
		if refusal, err = s.fitBackend(); err == nil && refusal == nil {
			err = s.stopped()
		}
	}
	if err == nil && refusal == nil {
		return nil
	}
	if err != nil && refusal != nil && clientErr == error(errBackendLost) {
		clientErr = errNotApplied(refusal)
	}
	s.endTransaction(false)
	return s.notApplied(e, inBlock, refusal, err, clientErr)
}

// fitBackend is syncSettings, and has the schema read where the backend may know a newer one: see meetSchema. What else
// may have to be asked of it goes first, since a server tells but once that the schema has changed.
func (s *session) fitBackend() (refusal []byte, err error) {
	if refusal, err = s.syncSettings(); err != nil || refusal != nil || !s.srv.keeper.on {
		return refusal, err
	}
	if !s.srv.reads() && !s.pinned {
		_, err = s.askReads(false)
	}
	if err == nil && !s.mapped.nothing {
		err = s.meetSchema(false)
	}
	return nil, err
}

// soundAfter reports whether an error of fitBackend leaves the backend sound.
func soundAfter(err error) bool { return stops(err) || isRefusal(err) || err == errClientGone }

// notApplied ends what applySettings could not do: refusal is the server's, err is what came between, and told is for
// the client where the backend was lost. e moves the session. It returns the error of applySettings.
func (s *session) notApplied(e event, inBlock bool, refusal []byte, err, clientErr error) error {
	switch {
	// A cancel, a timeout, a cut, or a schema that could not be read: the backend serves on,
	// unless its answer is still to come (broken).
	case s.b != nil && soundAfter(err):
		s.heeded(err)
		if s.keeps() && !inBlock && !s.b.broken() {
			e = settledHeld
		} else {
			s.giveBack()
		}
		if merr := s.move(e); merr != nil {
			return merr
		}
		return err
	case err != nil && s.pinned:
		s.losePin()
		s.dropBackend(reservoir.Broken)
		s.hears(err)
		return s.pinGone()
	case err != nil:
		if s.b != nil {
			s.dropBackend(reservoir.Broken)
		}
		if merr := s.move(e); merr != nil {
			return merr
		}
		return clientErr
	default:
		s.srv.accepted.Forget()
		s.giveBack()
		if merr := s.move(e); merr != nil {
			return merr
		}
		return errNotApplied(refusal)
	}
}

// unrestored are the SETs that give the settings of the client's startup which the transaction has reset their startup
// values: the server has put its own in force. They are in the order of their names, and SET LOCAL where the reset was.
func (s *session) unrestored() (sets []rewrite.Change) {
	for _, name := range slices.Sorted(maps.Keys(s.settings.Startup.SQL)) {
		last := s.settings.Staged.Last(name)
		if last == nil || last.SQL != "" || last.Action == rewrite.SetLocal && !last.Default {
			continue
		}
		c := rewrite.Change{Action: rewrite.Set, Name: name, SQL: s.settings.Startup.SQL[name], Text: s.settings.Startup.Shown[name]}
		if last.Action == rewrite.SetLocal {
			c.Action = rewrite.SetLocal
		}
		sets = append(sets, c)
	}
	return sets
}

// restoreStartup puts the client's startup values in force, in front of what it sends next in its block. Between two
// turns of a block nothing is owed, so that a round trip is possible. An error is a lost backend, or for the client:
// the server has refused a value, and its block has failed.
func (s *session) restoreStartup() error {
	sets := s.unrestored()
	if len(sets) == 0 {
		return nil
	}
	var sql strings.Builder
	for _, c := range sets {
		sql.WriteString(setText(c) + "; ")
	}
	refusal, err := s.b.exchange(wire.AppendStrings(nil, wire.Query, sql.String()))
	if err != nil {
		return &lostError{err: err}
	}
	if refusal != nil {
		return errNotApplied(refusal)
	}
	for _, c := range sets {
		s.settings.Stage(c)
	}
	s.restored(sets)
	return nil
}

// restored is told of settings that a backend was given where the log knows nothing of it:
// the transaction is not run again.
func (s *session) restored(sets []rewrite.Change) {
	s.txParsing = s.parsingAfter(rereads(sets))
	if s.tx.log != nil {
		s.tx.log.Refuse(retry.Pinned)
	}
}

// setText is the statement of a change, a Set or SetLocal with a value.
func setText(c rewrite.Change) string {
	verb := "SET "
	if c.Action == rewrite.SetLocal {
		verb = "SET LOCAL "
	}
	return verb + settings.QuoteName(c.Name) + " TO " + c.SQL
}

// resetsStartup reports whether a statement that a shared backend runs puts its own value in force where the client's
// startup has given one. st may be nil, which is no such statement.
func (s *session) resetsStartup(st *rewrite.Statement) bool {
	if st == nil || s.dedicated || len(s.settings.Startup.SQL) == 0 {
		return false
	}
	return slices.ContainsFunc(st.Changes, func(c rewrite.Change) bool {
		switch c.Action {
		case rewrite.ResetAll:
			return true
		case rewrite.Reset, rewrite.SetLocal:
			return c.SQL == "" && s.settings.Startup.SQL[c.Name] != ""
		}
		return false
	})
}

// restoreInGroup is restoreStartup between the frames of a Sync group, behind one that has reset something. The SETs go
// in front of the client's next frames, as frames whose answers are for nobody, by a portal of Sluice's own. With nil
// the group goes on, unless t.skip says that the reset has failed.
func (s *session) restoreInGroup() error {
	if err := s.makeAnswer(); err != nil || s.t.skip {
		return err
	}
	sets := s.unrestored()
	for _, c := range sets {
		for _, kind := range []byte{wire.Parse, wire.Bind, wire.Execute, wire.Close} {
			o := s.t.owed.push(kind)
			if o.swallow = true; kind == wire.Execute {
				o.reply = expectSet
			}
		}
		frames := wire.AppendParse(nil, "", setText(c), wire.NoOIDs) // no client's statement has no name there
		frames = append(appendBindHead(frames, []byte(ownName), "", 6), 0, 0, 0, 0, 0, 0)
		frames = append(append(wire.AppendHeader(frames, wire.Execute, len(ownName)+1+4), ownName...), 0, 0, 0, 0, 0)
		s.add(wire.AppendNamed(frames, wire.Close, 'P', ownName))
		s.settings.Stage(c)
	}
	if len(sets) > 0 {
		s.restored(sets)
	}
	return nil
}

// resetsInside is the refusal of a string in which statements stand behind a reset that
// puts the server's values in force for them; nil for any other. In d are those of its
// statements that the server does not get as they are; d may be nil.
func (s *session) resetsInside(plan *rewrite.Plan, d *strung, sql []byte) error {
	if len(plan.Statements) < 2 {
		return nil
	}
	if first := plan.Statements[0].Tx.Verb; s.status() == 'E' && !endsBlock(first) && first != rewrite.RollbackTo {
		return nil // it fails, whatever stands in it
	}
	reset, committed := false, false
	for i := range plan.Statements {
		st := &plan.Statements[i]
		if d != nil && (d.places[i].ours() || d.places[i].sql != "" && !d.places[i].begin) {
			continue
		}
		committed = committed || reset && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.PrepareTransaction)
		begins := st.Tx.Verb == rewrite.Begin || st.Tx.Chain // a block that would know nothing of the reset
		if reset && !s.heedless(st, sql) || committed && begins {
			return errResetInside
		}
		reset = reset || s.resetsStartup(st)
	}
	return nil
}

// heedless reports whether a statement surely means the same whatever settings of the startup are in force: of what
// pools send to reset a session, each does. sql is the text that the plan is of.
func (s *session) heedless(st *rewrite.Statement, sql []byte) bool {
	switch {
	case st.End > len(sql):
		return false
	case st.Kind == rewrite.Setting:
		return s.settings.Startup.SQL["datestyle"] == "" || !slices.ContainsFunc(st.Changes, func(c rewrite.Change) bool {
			return c.SQL != "" && settings.Merges(c.Name, c.SQL)
		})
	case st.Kind == rewrite.Control:
		return true
	}
	return heedlessText.Match(sql[st.Start:st.End])
}

// heedlessText are the statements beside SET and transaction control that pools send to
// reset a session. Only whole statements match where a SELECT is meant.
var heedlessText = regexp.MustCompile(`(?i)^(unlisten|listen|notify|close|deallocate)\b|^select \d+( as \w+)?$|^select pg_advisory_unlock_all\(\)$`)

// errResetInside is told where RESET stands in front of others in a string.
var errResetInside = &wire.Error{Code: retry.StateUnsupported, Message: "a RESET to a value of the client's startup must not stand in front of other statements in one string",
	Hint: "Send it in a request of its own, or at the end of the string."}

// syncSettings is what applySettings sends; refusal is the server's. The backend is idle, outside a transaction. The
// error may be one that stops the turn: then the backend is as it should be, unless it is broken. Where the backend has
// the session's settings already, which a comparison of pointers mostly tells, nothing is sent.
func (s *session) syncSettings() (refusal []byte, err error) {
	b := s.b
	if s.srv.watched.Load() {
		if err := s.srv.observers.attached(s); err != nil {
			return nil, err
		}
	}
	reset := ""
	if b.unsure && !s.keeps() {
		reset = s.srv.resetSQL()
		b.applied = s.srv.interned.None()
	}
	if reset == "" && b.applied == s.settings.InForce {
		return nil, nil
	}
	if reset == "" && b.applied != nil && b.applied.Equal(s.settings.InForce) {
		b.applied = s.settings.InForce
		return nil, nil
	}
	if b.applied == nil {
		b.applied = s.srv.interned.None() // only a pinned backend gets here: DISCARD ALL went by
	}
	refusal, err = s.sendSettings(wire.AppendStrings(nil, wire.Query, reset+settings.Diff(b.applied, s.settings.InForce)))
	if err == nil && refusal == nil {
		b.unsure = b.unsure && reset == ""
		b.applied = s.settings.InForce
		// The reports of the group are those of these settings: what a transaction changes
		// from here on is compared with them (believe).
		b.reported = s.srv.sharedReports.Share(b.reported)
		b.idle = b.reported
		err = s.stopped()
	}
	return refusal, err
}

// sendSettings has the backend carry out a Query of settings, and sends it again where the server
// answers with a conflict: a cluster does so where the backend's catalog is old. A server that cannot
// carry it out now has refused no setting: its backend is given up as a lost one is (question.Settings),
// unless it has the session's state. The error says so then, beside the refusal.
func (s *session) sendSettings(msg []byte) (refusal []byte, err error) {
	exchange := s.exchange
	if s.pinned { // its backend is worth the wait
		exchange = s.b.exchange
	}
	for range mostCatalogTries {
		question.Asked(func() (string, error) {
			refusal, err = exchange(msg)
			return string(retry.Field(refusal, 'C')), err
		})
		if err != nil || refusal == nil || faultOf(refusal) != question.Conflict {
			break
		}
	}
	if err == nil && refusal != nil && !s.pinned && faultOf(refusal) == question.Timeout {
		err = refusedBy(refusal)
	}
	return refusal, err
}

// noteCalls is told of a statement that has run, in whole or in part: what the functions that it calls have set for the
// session is not known. It counts when the transaction is committed (commitSettings).
func (s *session) noteCalls(st *rewrite.Statement) {
	if st.Calls && s.srv.resetsAuto {
		s.settings.Stage(settings.Unseen)
	}
}

// resetsAuto reports whether functions may leave settings that must be reset. A cluster
// refuses set_config (a recorded fact), so that functions of DSQL cannot.
func (c *Config) resetsAuto() bool {
	return (c.Reset == ResetAuto || c.Reset == "") && c.Kind == Postgres
}

// resetSQL puts all settings of a server's session back. The authorization goes first:
// another role may not be allowed to reset what the session's own may.
func (srv *Server) resetSQL() string {
	if srv.cfg.Kind == Postgres {
		return "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; "
	}
	var b strings.Builder
	for _, name := range settings.ByRole(dsqlResets, -1) {
		b.WriteString("RESET " + name + "; ")
	}
	return b.String()
}

// dsqlResets are the settings that every cluster lets a session change; the role is its
// transaction's only (SET LOCAL). The values are of no use: ByRole wants a map.
var dsqlResets = map[string]string{"client_encoding": "", "datestyle": "", "extra_float_digits": "", "intervalstyle": "",
	"search_path": "", "timezone": ""}
