package proxy

import (
	"bytes"
	"cmp"

	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file connects a session to package access, which emulates default_transaction_read_only. turn.access has the
// access mode. Sluice sets it where a transaction may begin, and reads it for each statement outside a block.

// resetAccessMode sets the turn's access mode at the start of the turn, or after a transaction has ended in the turn.
// If the server knows default_transaction_read_only (kind postgres, dedicated backend), the mode is ReadWrite.
func (s *session) resetAccessMode() {
	s.t.access.Mode = access.ReadWrite
	if !s.dedicated && s.srv.cfg.Kind == DSQL {
		s.t.access.Mode = access.NextMode(&s.settings)
	}
}

// bindBeginReadOnly makes a Bind of a BEGIN, which Sluice sends at once, use BEGIN READ ONLY if the session requires
// that. The client's own prepared statement stays unchanged. The caller sends a returned error to the client.
func (s *session) bindBeginReadOnly(b *pendingBind) error {
	if !s.t.access.BeginsReadOnly() {
		return nil
	}
	if err := s.readWholeBind(b); err != nil {
		return err
	}
	st, sql := b.cs.Template.Plan.SingleStatement(), []byte(b.cs.Template.SQL)
	says := st.Tx
	if st.Weakened { // the client gets its warning again
		says.Isolation = rewrite.Serializable
	}
	tmpl, err := s.templateFor([]byte(access.BeginSQL(access.BeginWord(st, sql), &says, "READ ONLY")), []byte(b.cs.Template.OIDs))
	if err != nil {
		return err
	}
	made := s.newClientStatement(tmpl, 0)
	b.portal, b.stmt, b.cs = bytes.Clone(b.portal), bytes.Clone(b.stmt), &made
	return planRefusal(tmpl.Plan)
}

// checkReadOnly returns the error of a text outside a block that may write, if its transaction is READ ONLY, or nil.
// hiddenWriteError checks texts that look like reads but may write.
func (s *session) checkReadOnly(plan *rewrite.Plan) error {
	if s.dedicated || s.srv.cfg.Kind != DSQL || !s.t.access.BeginCheck(plan) {
		return nil
	}
	if err := s.t.access.Check(plan, access.Position{Block: s.blockForNextStatement(), Failed: s.txStatus() == 'E', First: !s.t.touched && !s.t.request.ranLocal, Settings: &s.settings}); err != nil {
		return err
	}
	return nil
}

// currentPlanRefusal returns the error with which Sluice refuses a planned text in the session's current state, or nil.
func (p *pairing) currentPlanRefusal(plan *rewrite.Plan) error {
	err := planRefusal(plan)
	if st := plan.SingleStatement(); err != nil && st != nil {
		return cmp.Or(p.readOnlyRefusal(st), err)
	}
	return err
}

// readOnlyRefusal returns 25006 for a statement that may write and that Sluice answers in a READ ONLY block, or nil.
func (p *pairing) readOnlyRefusal(st *rewrite.Statement) error {
	if command, _ := st.ReadOnlyViolation(); command != "" && p.isInReadOnlyBlock() {
		return access.WriteError(st, access.ReadOnly)
	}
	return nil
}

// planForServer returns the plan of a text as the server gets it, after checkReadOnly has accepted the text. It returns
// an error if a statement had to be replaced and could not be.
func (s *session) planForServer(plan *rewrite.Plan, sql []byte) (*rewrite.Plan, error) {
	made := s.planWithSubstitutes(plan, sql)
	if s.t.request.script == nil {
		if err := s.t.access.ScriptError(); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// hiddenWriteError returns the error of a text outside a block that looks like a read but may write according to the
// schema. The parameter was is the plan by the SQL alone, plan the one by the schema. The session must have a
// backend.
func (p *pairing) hiddenWriteError(was, plan *rewrite.Plan) error {
	if was == plan || p.t.access.Mode == access.ReadWrite || p.inBlock() || p.txStatus() == 'E' {
		return nil
	}
	return access.ErrMayWrite
}
