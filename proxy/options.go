package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/notice"
	"github.com/sluice-proxy/sluice/proxy/options"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file connects a session to the client's options, its settings sluice.* (package options). While a COMMIT is
// unanswered, Sluice does not know the options after it, so the session waits (finishEarlierFrames).

// currentOptions returns the client's current options (sluice.*), or nil. Callers compare the pointers.
func (s *session) currentOptions() *rewrite.ClientOptions {
	if by := s.parts.Options().Values(); by != nil && (s.inBlock() || s.t != nil && s.t.nested.outsideBlock) {
		return by
	}
	return s.settings.Options()
}

// planner returns the planner for the session's next query, usually after two comparisons. If the client has changed
// ddl.in_transactions, the new value applies as soon as mayChangeDDLPolicy allows that.
func (s *session) planner() *rewrite.Planner {
	p := s.options.Planner(s.currentOptions())
	if how := p.InTransactions(); how != s.parts.Policy() && s.mayChangeDDLPolicy() {
		s.parts = ddltx.New(how)
	}
	return p
}

// mayChangeDDLPolicy reports whether the session may now change how transactions with DDL are committed. The result is
// true outside a block, and in a block that has run no statement.
func (s *session) mayChangeDDLPolicy() bool {
	return !s.dedicated && !s.srv.cfg.hasDedicatedBackends() && (s.t == nil || !s.t.nested.outsideBlock) && (!s.inBlock() || s.isBlockEmpty())
}

// isBlockEmpty reports whether the block has run no statement but BEGIN, which may be unsent or at the server.
func (s *session) isBlockEmpty() bool {
	switch {
	case len(s.tx.marks) > 0, !s.parts.Committed().IsEmpty():
		return false
	case s.state == begun:
		return s.tx.log == nil // that is made for a savepoint
	}
	return s.b != nil && !bool(s.tx.ran) && s.txStatus() != 'E'
}

// optionState returns the session's state that package options needs to set or show the client's options.
func (s *session) optionState() *options.State {
	return &options.State{Settings: &s.settings, Block: s.parts.Options(), Current: s.currentOptions(), Policy: s.parts.Policy(), PolicyFixed: s.inBlock() && !s.isBlockEmpty()}
}

// optionsChanged reports whether the client had other options when t was planned, so that the plan may differ now. It
// allocates nothing, since each Bind calls it.
func (s *session) optionsChanged(t *statement.Template) bool {
	return t.PlannerNumber != t.Plan.VariantNumberIn(s.planner())
}

// queryWithOptions runs a multi-statement query with SETs of options (sluice.*). For any other query, and in a failed
// block, where the server's error comes first, done is false. If done is true the turn is over.
func (s *session) queryWithOptions(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if !options.Concern(plan) || s.txStatus() == 'E' {
		return false, nil
	}
	script, bad := s.optionState().Cut(plan, sql, options.Place{Block: s.blockForNextStatement(), InBlock: s.inBlock(), Free: s.b == nil, Busy: s.dedicated || s.t.touched})
	if bad != nil {
		return false, bad
	}
	if script == nil {
		return false, nil
	}
	failed, err := script.Run(&optionRunner{s: s, sql: sql, optsOut: s.t.nested.optsOut || s.srv.pool.replays != nil && retry.HasNoRetryComment(sql)})
	if err != nil {
		return true, err
	}
	s.t.server.errorTold = s.t.server.errorTold || failed
	return true, s.endTurnLocally()
}

// optionRunner runs the pieces of a client's text sql that sets options, for package options.
type optionRunner struct {
	s       *session
	sql     []byte
	optsOut bool // of replay
}

func (r *optionRunner) InBlock() bool { return r.s.inBlock() }

func (r *optionRunner) Run(sql string, before int) (feature.NestedResult, error) {
	return r.s.runNestedQuery(sql, nestedTurn{amidOthers: true, optsOut: r.optsOut, shift: r.s.t.nested.shift + before})
}

func (r *optionRunner) RunSilently(sql string, want silent.ExpectedAnswer) (feature.NestedResult, error) {
	r.s.t.clock.Start(r.s.settings.StatementTimeout())
	return r.s.runNestedQuery(sql, nestedTurn{hiddenAnswer: silent.NewAnswer(want), optsOut: r.optsOut})
}

func (r *optionRunner) GiveBlockToClient(begin *rewrite.Statement) (err error) {
	s := r.s
	if tx := &begin.Tx; (tx.ReadOnly || tx.ReadWrite) && s.state == begun {
		text := beginReadWrite
		if tx.ReadOnly {
			text = "BEGIN READ ONLY"
		}
		if s.deferredBegin, err = s.templateFor([]byte(text), wire.NoOIDs); err != nil {
			return err
		}
	}
	s.srv.metrics.CountLocalAnswer(metrics.LocalBegin)
	return s.answerWithWeakenedWarning(begin, beginTag(begin, r.sql))
}

func (r *optionRunner) Warn(warning *wire.Error) error {
	return r.s.queueReply(warning.AppendNotice(nil, "WARNING"))
}

func (r *optionRunner) TransactionEnded() { r.s.resetAccessMode() }

// recordOptionsReset records a RESET ALL or DISCARD ALL in a block that has its own options (ddltx.Tx).
func recordOptionsReset(s *session, _ *pendingReply, st *rewrite.Statement, tag []byte) {
	if tag != nil && st != nil && s.parts != nil && hasChange(st, rewrite.ResetAll, rewrite.DiscardAll) {
		s.parts.Options().RecordResetAll(s.settings.StartupOptions())
	}
}

// setOption carries out SET, RESET or SET TO DEFAULT of a setting of Sluice. frame is sent before the command tag. It
// is the warning of SET LOCAL outside a block, the notice of a weaker guarantee, or nil. After an error, which goes
// to the client, nothing has changed.
func (s *session) setOption(c *rewrite.SettingChange, several bool) (frame []byte, err error) {
	set, err := s.options.Set(c, s.optionState())
	if c.Action == rewrite.SetLocal && !several && !s.inBlock() {
		frame = sqlerror.WarnNoTransaction.AppendNotice(nil, "WARNING")
	}
	return s.appendOptionNotice(frame, set), err
}

// localShowValue returns the value that SHOW displays if Sluice answers the SHOW. A returned error goes to the client.
func (s *session) localShowValue(name string) (string, *wire.Error) {
	if settings.IsProxySetting(name) {
		return s.options.Shown(name, s.currentOptions(), s.srv.pool.replays != nil && !s.optedOut)
	}
	if name == access.Setting {
		return "on", nil
	}
	return s.settings.ShownValue(name), nil
}

// appendOptionNotice counts an option in the metrics. set may be nil, for no option. If the option weakens a guarantee,
// appendOptionNotice appends a NOTICE, unless the client's client_min_messages excludes notices.
func (s *session) appendOptionNotice(frames []byte, set *options.Choice) []byte {
	if set == nil {
		return frames
	}
	s.srv.metrics.CountClientOption(set.Key)
	if set.Loss != nil && notice.Wanted(&s.settings) {
		return set.Loss.AppendNotice(frames, "NOTICE")
	}
	return frames
}
