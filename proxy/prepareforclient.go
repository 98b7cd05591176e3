package proxy

import (
	"bytes"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file finds a client's statement on a backend, or prepares it there, before the statement runs. Sluice checks
// that the result columns are those that the client knows. schema.go explains epochs, which count versions of the
// schema. constants.go has statements whose constants depend on settings such as DateStyle.

// revalidateStatement makes Sluice prepare a statement again before a Describe, if Sluice's own answer to the Parse
// was not sent yet. So the statement follows the current schema. Later Sluice could not tell whether the schema
// changed before or after the Parse, and would refuse the statement.
func (s *session) revalidateStatement(cs *statement.Client) {
	switch {
	case cs.Since == 0:
		return
	case cs.Since == s.deliveries+1:
		cs.Known, cs.Epoch = nil, s.schemaEpoch()
		if st := s.b.prepared.Find(cs.Template); st != nil {
			s.closeOnBackend(st)
		}
	case cs.Described == nil:
		cs.RecordDescription(&s.memory.account, cs.Known)
	}
	cs.Since = 0
}

// descriptionClockStart is the origin of the times at which the server last confirmed a statement's description.
var descriptionClockStart = time.Now()

// confirmDescription records that the server's answer to the pending reply o has just confirmed the description d.
// In a session that may use another schema, or temporary tables, it does nothing.
func (s *session) confirmDescription(o *pendingReply, d *statement.Description) {
	if s.srv.cfg.DescribeMemory > 0 && !s.pin.IsPinned() && !o.mayUseTempTables && s.schema.txEpoch == 0 {
		d.Seen.Store(int64(time.Since(descriptionClockStart)))
	}
}

// isRecentlyConfirmed reports whether the server has confirmed the description d within DescribeMemory (0: never).
func (srv *Server) isRecentlyConfirmed(d *statement.Description) bool {
	return time.Since(descriptionClockStart)-time.Duration(d.Seen.Load()) < srv.cfg.DescribeMemory
}

// newClientStatement returns the statement that a client prepares now from tmpl. It has the schema's epoch (version)
// and the description that the client would get. since is the number of the write in which the client gets the
// answer to its Parse, or 0.
func (s *session) newClientStatement(tmpl *statement.Template, since uint64) statement.Client {
	known := s.cachedDescription(tmpl)
	return statement.Client{Template: tmpl, Cost: int32(tmpl.Cost + known.MemoryBytes()), Columns: int32(known.MemoryBytes()), Epoch: s.schemaEpoch(), Known: known, Since: since}
}

// prepareForClient returns the backend's statement for cs, and prepares it if needed. If the statement's columns
// differ from those that the client knows, the error is sqlerror.PlanChanged. prepareForClient may send frames, await
// answers, and replace the backend. Only on success does it update the template and epoch (schema version) of cs. If
// the server refuses the text, the client gets that error, and both results are nil.
func (s *session) prepareForClient(cs *statement.Client) (*statement.Server, error) {
	p := s.parsingKey()
	if cs.Template.Parsing != p && (cs.Template.ConstantsChangeUnder(p) || s.b.parsesDifferently(cs.Template) && s.findParsedStatement(cs) != nil) {
		return s.reuseParsedStatement(cs)
	}
	tmpl, epoch := s.templateForSettings(cs, p)
	if s.b.wouldReparseDifferently(cs, tmpl, epoch) {
		return nil, errOtherReading
	}
	// promise is the description that the statement must match. A client without a Describe has none. But if the schema
	// changed and the backend must prepare the statement, promise is the description at the client's Parse.
	promise := cs.Described
	if promise == nil && cs.Epoch != s.schemaEpoch() && !s.b.prepared.HasInEpoch(tmpl, epoch) {
		promise = cs.Known
	}
	st, agrees, err := s.prepareAndCompare(tmpl, epoch, promise, func() (bool, error) {
		err := s.flushAndRelay()
		return err == nil && !s.t.server.skip, err
	})
	switch {
	case err != nil || st == nil:
		return nil, err
	case !agrees:
		// Retry with the parameter types in the client's description. PostgreSQL does not change a prepared statement's types.
		if typed := s.templateWithParamTypes(tmpl, promise, st.Description); typed != nil {
			before := *cs
			cs.Template, cs.Epoch = typed, s.schemaEpoch()
			if st, err = s.prepareForClient(cs); err != nil || st == nil {
				before.Cost, before.Columns, before.Listed = cs.Cost, cs.Columns, cs.Listed
				*cs = before
			}
			return st, err
		}
		return nil, sqlerror.PlanChanged
	}
	cs.Template = tmpl
	if st.Epoch&statement.TxEpochBit == 0 {
		cs.Epoch = st.Epoch
	}
	if cs.Described == nil {
		cs.Known = st.Description
	} else if st.Description != nil {
		cs.RecordDescription(&s.memory.account, st.Description) // equal, and newer
	}
	return st, nil
}

// templateForSettings returns the template of cs under the session's current settings p, since settings such as
// DateStyle may change its meaning. epoch is the oldest schema version of a backend's statement that may be used.
func (s *session) templateForSettings(cs *statement.Client, p settings.ParsingHashes) (tmpl *statement.Template, epoch uint64) {
	if tmpl = cs.Template; tmpl.Parsing != p {
		tmpl = s.srv.pool.templates.Template(&s.t.scratch, []byte(tmpl.SQL), []byte(tmpl.OIDs), p, tmpl.Names, tmpl.PlannerNumber, tmpl.Plan)
		if cs.Template.Split != nil {
			tmpl = tmpl.CurrentForm()
		}
	}
	if tmpl != cs.Template {
		return tmpl, s.schemaEpoch()
	}
	return tmpl, cs.Epoch
}

// wouldReparseDifferently reports whether the backend would have to parse a client's text now, and might parse the text
// otherwise than the planner did. Sluice could not tell which statement would run.
func (b *backend) wouldReparseDifferently(cs *statement.Client, tmpl *statement.Template, epoch uint64) bool {
	return b.parsesDifferently(tmpl) && (tmpl != cs.Template || tmpl.Plan.Pin != rewrite.PinUnparsed) && !b.prepared.HasInEpoch(tmpl, epoch)
}

// parsesDifferently reports whether the backend, by its settings, may parse the text otherwise than the planner.
func (b *backend) parsesDifferently(tmpl *statement.Template) bool {
	return b.settings.Reading() != 0 && b.settings.Reading().MayMislead([]byte(tmpl.SQL))
}

// templateWithParamTypes returns tmpl with the parameter types of promise, the client's description, if the server
// has now chosen other types (desc). PostgreSQL would keep to the old types. Otherwise the result is nil.
func (s *session) templateWithParamTypes(tmpl *statement.Template, promise, desc *statement.Description) *statement.Template {
	told, _ := promise.SplitFrames()
	if desc == nil || told == nil || tmpl.Split != nil || len(told) > statement.MaxCachedText {
		return nil
	}
	// If the client's Parse already declares these types, a new template would make no difference.
	if now, _ := desc.SplitFrames(); bytes.Equal(told, now) || string(told[wire.HeaderLen:]) == tmpl.OIDs {
		return nil
	}
	return s.srv.pool.templates.Template(&s.t.scratch, []byte(tmpl.SQL), bytes.Clone(told[wire.HeaderLen:]), tmpl.Parsing, tmpl.Names, tmpl.PlannerNumber, tmpl.Plan)
}

// prepareAndCompare returns the backend's statement for tmpl, and whether its description matches promise, which may
// be nil. A statement prepared in the given epoch (schema version) may be used, because the server refuses to run it
// with other columns. Only a statement that was prepared just now can mismatch. The function answered awaits the
// server's answers and reports whether to continue; if not, st is nil.
func (s *session) prepareAndCompare(tmpl *statement.Template, epoch uint64, promise *statement.Description, answered func() (bool, error)) (st *statement.Server, agrees bool, err error) {
	st = s.b.prepared.Find(tmpl)
	fresh := st == nil || st.Epoch != epoch && st.Epoch != s.schemaEpoch()
	if fresh {
		st = s.prepareOnBackend(tmpl, true)
	} else {
		s.srv.metrics.CountPreparedUse(metrics.PreparedHit)
	}
	// The statement's description is needed if promise must match it, or if two statements are sent (tmpl.split).
	for promise != nil || tmpl.Split != nil {
		if st.Description == nil && fresh {
			// The request for the statement's description was sent, and its reply is pending.
			attempts := s.tx.attempts.Count()
			if ok, err := answered(); !ok || err != nil {
				return nil, false, err
			}
			if s.tx.attempts.Count() != attempts { // the backend may be another one
				return s.prepareAndCompare(tmpl, epoch, promise, answered)
			}
		}
		s.t.desc = st.Description
		agrees = promise == nil || st.Description == promise || st.Description != nil && st.Description.IsCompatible(promise)
		if agrees && st.Description != nil || fresh {
			return st, agrees, nil
		}
		s.closeOnBackend(st)
		st, fresh = s.prepareOnBackend(tmpl, true), true
	}
	return st, true, nil
}
