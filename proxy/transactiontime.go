package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// A replay has a later transaction time, now(), than the first attempt. A client that got the first time may compare it
// with later answers and stored rows.
//
// So Sluice writes the time that the client got into the SQL wherever the replay would show another. An INSERT with
// columns that default to now() gets the time that the client has seen (values.FirstRunValues). A statement that
// returns only the time, such as SELECT now(), is not sent again. If another statement reads the clock, the answers
// differ and Sluice refuses the replay. After a ROLLBACK TO that has preserved now(), Sluice writes the time into later
// statements too. It then refuses a statement that reads the clock in another way.
//
// If no answer has the time itself, Sluice may have queried the time from the server (querytime.go).
//
// In a multi-statement query Sluice writes the time into each statement and records its answer (recorded.Answer).
//
// Two columns have the same time if they have the same type and default (schema.Column.Time), under the same settings
// for times. From a column with now() itself the server computes the values of all others (txtime).

// collectTxTime collects the transaction time (now()) that the client got, also in parts that ROLLBACK TO discarded.
// tells is false if the client got no such time. collectTxTime drops values that contradict each other.
func (r *recorder) collectTxTime(now *schema.Schema) (of *txtime.Time, tells bool) {
	of = &txtime.Time{}
	asked := r.tx.asked.instant
	var stored values.StoredTxTimes
	for f := range r.tx.loggedFrames() {
		n := &f.Note
		if f.Type != wire.Query && f.Type != wire.Bind || n.fence || n.names == nil || n.first == 0 {
			continue
		}
		text := r.clientText(f)
		tells = tells || values.ClassifyGenerated(r.planner, text) == schema.Clock || asked.Bytes != nil && stored.HidesTime(r.planner, text, n.names)
		if n.kept == nil {
			continue
		}
		pieces := r.planner.SplitStatements(text)
		for i, sql := range pieces[:min(int(n.first), len(pieces))] {
			if kept := n.kept.Statement(i, len(pieces)); kept != nil {
				tells = kept.AddTimes(of, r.planner, sql, n.names, now, r.resultFormats(f)) || tells
			}
		}
	}
	if asked.Bytes != nil {
		of.AddInstant(asked)
	}
	return of, tells
}

// resultFormats returns the result formats (text or binary) of a logged Query or Bind by column.
func (r *recorder) resultFormats(f *retry.LoggedFrame[logEntry]) func(column int) uint16 {
	if f.Type == wire.Bind {
		if p, ok := wire.ParseBindParams(r.loggedPayload(f)); ok {
			return p.ResultFormat
		}
	}
	return func(int) uint16 { return 0 }
}

// loggedFrames iterates over the frames of the transaction's log, its turn in progress, and its discarded parts.
func (tx *transaction) loggedFrames() func(yield func(*retry.LoggedFrame[logEntry]) bool) {
	return func(yield func(*retry.LoggedFrame[logEntry]) bool) {
		own := tx.log
		defer func() { tx.log = own }() // clientText reads the log in tx.log
		for _, l := range append([]*retry.ReplayLog[logEntry]{own}, tx.parts...) {
			tx.log = l
			for turn := range l.TurnCount() + 1 {
				frames := l.TurnFrames(turn)
				for i := range frames {
					if !yield(&frames[i]) {
						return
					}
				}
			}
		}
	}
}

// fixTextTime returns the text with the transaction time that the client got (txtime.Time.FixText). own is how many of
// the text's first statements belong to the transaction. A returned error, which goes to the client, says that a
// statement reads the clock in a way that Sluice cannot replace.
func (s *session) fixTextTime(sql []byte, own int, names *schema.NameResolver, value func(txtime.Value) string) (text string, err error) {
	text, ok := s.fixedTxTime().FixText(s.srv.pool.planner, string(sql), own, names, s.nextTimeSettingsKey(), value)
	if !ok {
		return "", s.refuseClockRead()
	}
	return text, nil
}

// nextTimeSettingsKey returns a key of the settings that the text of a time will depend on in the next statement. If
// Sluice does not know these settings, the result is "".
func (p *pairing) nextTimeSettingsKey() string {
	q := &p.t.owed
	if p.b == nil || !q.empty() && slices.ContainsFunc(q.items[q.head:], func(o pendingReply) bool { return o.plan != nil && !changesNoSetting(o.plan) }) {
		return ""
	}
	return txtime.SettingsKey(p.b.settings.Reported())
}

// changesNoSetting reports whether a plan can change no setting. The plan may be nil, which means no statement.
func changesNoSetting(plan *rewrite.Plan) bool {
	return plan == nil || plan.Kind <= rewrite.Read || plan.Kind == rewrite.Write
}

// refuseClockRead counts a statement that Sluice refuses because it reads the clock, and returns the error.
func (s *session) refuseClockRead() error {
	s.srv.metrics.CountRefusal(metrics.FeatureToldTime)
	return s.fixedTxTime().Refusal()
}

// fixedTxTime returns the earlier transaction time (now()) that the next statement must show again. It is from before a
// ROLLBACK TO, or from a committed part of the transaction. nil means the server's own time, or a failed block.
func (s *session) fixedTxTime() *txtime.Time {
	if s.tx.earlierTime == nil && s.t.nested.timed == nil || s.t.hasFirstTxEnded() {
		return nil
	}
	switch at := s.blockForNextStatement(); at.Status() {
	case 'T':
		return s.tx.earlierTime
	case 'I':
		return s.t.nested.timed
	}
	return nil
}

// fixQueryTime writes the earlier now() of fixedTxTime into a simple Query, and returns the new text of q. The answer's
// form is the same as for the client's text. A returned error goes to the client.
func (s *session) fixQueryTime(q *simpleQuery, sql []byte) ([]byte, error) {
	if s.fixedTxTime() == nil || mapping.IsSchemaIndependent(q.plan) || s.hasEarlyQuery(q.plan.SingleStatement()) { // this also runs in nested turns
		return sql, nil
	}
	made, err := s.fixTextTime(sql, int(s.countInFirstTx(q.plan)), s.mapped.Planned(), txtime.Literal)
	if err != nil || made == "" {
		return sql, err
	}
	q.frame = wire.AppendStrings(nil, wire.Query, made)
	q.total = len(q.frame)
	q.plan, err = s.planNextText([]byte(made))
	return []byte(made), err
}

// fixBindTime writes the earlier now() of fixedTxTime into a Bind, as a further parameter of a new statement. That
// statement returns the same columns as the client's. st is the client's statement on the backend, and the result
// replaces it. If both results are nil, the server has refused the text, as in prepareForClient.
func (s *session) fixBindTime(b *pendingBind, st *statement.Server) (*statement.Server, error) {
	if s.fixedTxTime() == nil || mapping.IsSchemaIndependent(b.cs.Template.Plan) {
		return st, nil
	}
	if err := s.readWholeBind(b); err != nil {
		return nil, err
	}
	t, names := b.cs.Template, s.mapped.Planned()
	p, ok := wire.ParseBindParams(b.rest)
	if !ok || t.Unshared || parse.MayReadAsNow(b.rest) {
		return nil, s.refuseClockRead()
	}
	made, err := s.fixTextTime([]byte(t.SQL), 1, names, txtime.ParamWriter(&p))
	if err != nil || made == "" {
		return st, err
	}
	plan := s.srv.pool.planner.PlanWithNames([]byte(made), names)
	cursor := b.cs.Declares != nil || b.cursor != nil
	if cursor || p.Len() > wire.MaxParams || planRefusal(plan) != nil || plan.Kind != t.Plan.Kind {
		return nil, s.refuseClockRead()
	}
	b.cs = &statement.Client{Template: s.srv.pool.templates.Template(&s.t.scratch, []byte(made), []byte(t.OIDs), t.Parsing, names.ID(), t.PlannerNumber, plan), Epoch: s.schemaEpoch()}
	b.rest = p.Bytes()
	return s.prepareForClient(b.cs)
}
