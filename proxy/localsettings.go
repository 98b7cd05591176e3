package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file handles settings that Sluice stores instead of the server. setLocalSetting runs SET.
// refuseLocalSettingQuery refuses queries that the server would answer wrongly. sendResetAsSet handles RESET to a
// startup value that the server does not know. Package settings holds the values.

// setLocalSetting runs a SET of a setting that is never sent to the server. notice is PostgreSQL's warning for a SET
// LOCAL outside a block. several says that the statement is part of a multi-statement query, which is one
// transaction. The caller sends an error to the client: PostgreSQL would refuse the value too.
func (s *session) setLocalSetting(c *rewrite.SettingChange, several bool) (notice []byte, err error) {
	txOnly := c.Action == rewrite.SetLocal
	value, bad := settings.CheckedValue(c)
	if txOnly && !several && !s.inBlock() { // lasts until the Sync, or until the end of the block if a BEGIN follows
		notice = sqlerror.WarnNoTransaction.AppendNotice(nil, "WARNING")
	}
	switch {
	case bad != nil:
		return nil, bad
	case c.Default:
		return notice, s.settings.ResetLocalToStartup(c.Name, txOnly)
	}
	if s.srv.pool.treat.ForName(c.Name) == settings.Ignored {
		s.srv.metrics.CountIgnoredSetting(c.Name)
	}
	return notice, s.settings.StoreLocal(c.Name, value, txOnly)
}

// refuseLocalSettingQuery returns an error if a statement asks the server for a setting that Sluice stores, otherwise
// nil. In a failed block the result is nil, since the server's own error comes first.
func (s *session) refuseLocalSettingQuery(plan *rewrite.Plan) error {
	st := plan.SingleStatement()
	if st == nil || st.Asks == nil || s.txStatus() == 'E' {
		return nil
	}
	for _, name := range st.Asks {
		if s.settings.ServerShowsOther(name) || s.t.access.AnswersShow(name, s.inBlock()) {
			return sqlerror.LocalSettingQueried(name)
		}
	}
	return nil
}

// sendResetAsSet sends RESET as a SET to the client's startup value, if the server must get the statement. For any
// other statement it returns false. If it returns true, the turn is over, or the client gets the returned error. The
// client gets the tag RESET, also in a replay (logEntry.answered).
func (s *session) sendResetAsSet(plan *rewrite.Plan) (bool, error) {
	st := plan.SingleStatement()
	if st == nil || s.txStatus() == 'E' {
		return false, nil
	}
	change, ok := serversettings.ResetAsSet(&s.settings, st)
	if !ok { // see restoreStartupSettings
		return false, nil
	}
	set := &rewrite.Plan{Kind: rewrite.Setting, Statements: []rewrite.Statement{{Kind: rewrite.Setting, Changes: []rewrite.SettingChange{change}}}}
	if err := s.admitPlan(set); err != nil {
		return true, err
	}
	s.recordParsingChange(set)
	o := s.t.owed.push(wire.Query)
	tag := wire.AppendCommandComplete(nil, result.SettingTag(st))
	o.plan, o.reply = set, resetAsSetReply{expectSet, tag}
	frame := wire.AppendStrings(nil, wire.Query, serversettings.SetSQL(change))
	s.logPlan(set)
	s.t.rec.logFrame(wire.Query, logEntry{plan: set, answered: &localAnswers{tag: tag}, first: 1}, frame[wire.HeaderLen:])
	s.t.addToBatch(frame)
	return true, s.finishTurn()
}

// resetAsSetReply gives the client the command tag RESET for a RESET that the server got as a SET.
type resetAsSetReply struct {
	*expectedTagReply
	tag []byte
}

func (r resetAsSetReply) handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error) {
	v, err := r.expectedTagReply.handleFrame(s, o, f)
	if v != undecided || !f.EndsStatement() {
		return v, err
	}
	if v, _, err = s.handleStatementEnd(o, f.Means, f.Type, f.Bytes, v); err != nil {
		return v, err
	}
	return swallow, s.sendLocalAnswer(o, r.tag)
}
