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

// This file sets the session's settings on its backend before a transaction begins (applySettings, which ensureBackend
// calls). A client's RESET restores the server's own values, so that Sluice then sets the client's startup values again
// (restoreStartup, restoreInGroup). A replay uses syncSettings alone.

// mostSettingLosses bounds the backends lost in a row while their settings are applied. Losing so many is no
// coincidence.
const mostSettingLosses = 3

// applySettings changes the backend's settings to the session's, in a Sync group of its own. It awaits the answer,
// because the client's statements must not run under other settings. If the backend is lost, the next one is used: the
// lost one has no frame of the client. After an error nothing of the turn has been sent, and the session is in the
// state that the error leaves. inBlock says that Sluice has answered a BEGIN, which then stays in unserved.
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

// fitBackend runs syncSettings, and reads the schema if the backend may have a newer one (meetSchema). Other questions
// come first, since the server reports a schema change only once.
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

// soundAfter reports whether the backend is usable after an error of fitBackend.
func soundAfter(err error) bool { return stops(err) || isRefusal(err) || err == errClientGone }

// notApplied ends a failed applySettings and returns its error. refusal is the server's error, err any other. clientErr
// is for the client if the backend was lost. e is the session's event.
func (s *session) notApplied(e event, inBlock bool, refusal []byte, err, clientErr error) error {
	switch {
	// After a cancel, a timeout, a cut or an unreadable schema the backend is usable, if its answer is complete.
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

// unrestored returns SETs of startup values, for settings that the transaction has RESET to the server's own values.
// They are sorted by name. A reset for the transaction becomes SET LOCAL.
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

// restoreStartup sets startup values again after a RESET, before the client's next turn in the block. No reply is
// pending between turns, so a round trip is possible. An error is a lost backend. Or it is for the client: the server
// has refused a value, and the block has failed.
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

// restored records settings that a backend got without the log. The transaction cannot be replayed from then on.
func (s *session) restored(sets []rewrite.Change) {
	s.txParsing = s.parsingAfter(rereads(sets))
	if s.tx.log != nil {
		s.tx.log.Refuse(retry.Pinned)
	}
}

// setText returns the SQL of a Set or SetLocal with a value.
func setText(c rewrite.Change) string {
	verb := "SET "
	if c.Action == rewrite.SetLocal {
		verb = "SET LOCAL "
	}
	return verb + settings.QuoteName(c.Name) + " TO " + c.SQL
}

// resetsStartup reports whether the server runs st and thereby resets a setting that the client's startup has set. st
// may be nil.
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

// restoreInGroup sets startup values again after a RESET in a Sync group. It sends the SETs before the client's next
// frames, by a portal of Sluice; the client gets no replies. After nil the group continues, unless t.skip says that the
// RESET has failed.
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
		frames := wire.AppendParse(nil, "", setText(c), wire.NoOIDs) // clients' statements never use the unnamed one there
		frames = append(wire.AppendBindHead(frames, []byte(ownName), "", 6), 0, 0, 0, 0, 0, 0)
		frames = append(append(wire.AppendHeader(frames, wire.Execute, len(ownName)+1+4), ownName...), 0, 0, 0, 0, 0)
		s.add(wire.AppendNamed(frames, wire.Close, 'P', ownName))
		s.settings.Stage(c)
	}
	if len(sets) > 0 {
		s.restored(sets)
	}
	return nil
}

// resetsInside refuses a multi-statement query with statements after a RESET of a startup value, since they would use
// the server's value. d has the statements that Sluice answers or changes; it may be nil.
func (s *session) resetsInside(plan *rewrite.Plan, d *strung, sql []byte) error {
	if len(plan.Statements) < 2 {
		return nil
	}
	if first := plan.Statements[0].Tx.Verb; s.status() == 'E' && !endsBlock(first) && first != rewrite.RollbackTo {
		return nil // the query fails, whatever its statements are
	}
	reset, committed := false, false
	for i := range plan.Statements {
		st := &plan.Statements[i]
		if d != nil && (d.places[i].ours() || d.places[i].sql != "" && !d.places[i].begin) {
			continue
		}
		committed = committed || reset && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.PrepareTransaction)
		begins := st.Tx.Verb == rewrite.Begin || st.Tx.Chain // the new block would not include the reset
		if reset && !s.heedless(st, sql) || committed && begins {
			return errResetInside
		}
		reset = reset || s.resetsStartup(st)
	}
	return nil
}

// heedless reports whether a statement's meaning is certain to be independent of the startup's settings. That holds for
// all statements by which pools reset a session. sql is the whole query.
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

// heedlessText matches statements other than SET and transaction control by which pools reset a session. A SELECT must
// match as a whole.
var heedlessText = regexp.MustCompile(`(?i)^(unlisten|listen|notify|close|deallocate)\b|^select \d+( as \w+)?$|^select pg_advisory_unlock_all\(\)$`)

// errResetInside refuses RESET before other statements of a multi-statement query.
var errResetInside = &wire.Error{Code: retry.StateUnsupported, Message: "a RESET to a value of the client's startup must not stand in front of other statements in one string",
	Hint: "Send it in a request of its own, or at the end of the string."}

// syncSettings sends the backend the session's settings, if they differ. Usually a comparison of pointers shows that
// they do not. The backend must be idle, outside a transaction. refusal is the server's error. err may be one that
// stops the turn; then the settings are right, unless the backend is broken.
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
		b.applied = s.srv.interned.None() // only on a pinned backend, after DISCARD ALL
	}
	refusal, err = s.sendSettings(wire.AppendStrings(nil, wire.Query, reset+settings.Diff(b.applied, s.settings.InForce)))
	if err == nil && refusal == nil {
		b.unsure = b.unsure && reset == ""
		b.applied = s.settings.InForce
		// The reported parameters now belong to these settings. Later changes by a transaction are compared with them
		// (believe).
		b.reported = s.srv.sharedReports.Share(b.reported)
		b.idle = b.reported
		err = s.stopped()
	}
	return refusal, err
}

// sendSettings sends a Query of settings, and retries after a conflict, which a cluster returns if the backend's
// catalog is old. A server that is too busy has not judged the settings. Its backend counts as lost
// (question.Settings), unless the session is pinned to it; then err is set beside refusal.
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

// noteCalls records that a statement has run functions that may have changed settings unseen. It counts once the
// transaction commits (commitSettings).
func (s *session) noteCalls(st *rewrite.Statement) {
	if st.Calls && s.srv.resetsAuto {
		s.settings.Stage(settings.Unseen)
	}
}

// resetsAuto reports whether functions may change settings that must be reset. They cannot on DSQL, which refuses
// set_config (a recorded fact).
func (c *Config) resetsAuto() bool {
	return (c.Reset == ResetAuto || c.Reset == "") && c.Kind == Postgres
}

// resetSQL returns SQL that resets all settings of a server's session. The authorization comes first, since another
// role may not be allowed to reset the others.
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

// dsqlResets lists the settings that every cluster lets a session change. The role can only be set for a transaction
// (SET LOCAL). The values are unused: ByRole takes a map.
var dsqlResets = map[string]string{"client_encoding": "", "datestyle": "", "extra_float_digits": "", "intervalstyle": "",
	"search_path": "", "timezone": ""}
