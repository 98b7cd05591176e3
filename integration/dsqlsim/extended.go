package dsqlsim

import (
	"bytes"
	"encoding/binary"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// handleParse passes a client's Parse on to PostgreSQL. A statement that DSQL refuses already fails here.
func (s *session) handleParse(f *frame) error {
	name, rest, ok := cutCString(f.body)
	sql, types, ok2 := cutCString(rest)
	if !ok || !ok2 {
		return protocolViolation("invalid string in message")
	}
	text := s.server.dialect.Analyze(sql)
	made := &preparedStatement{text: text, types: types}
	r := s.newReplyTo(f)
	r.text, r.name, r.previous = text, name, s.names.statements[name]
	send := text.SQL
	if st := made.onlyStatement(); st != nil {
		if st.Refusal != nil {
			r.marked = failureOf(st.Refusal)
			return s.forwardFrame(newParseFrame(name, markerSQL, nil), r)
		}
		if made.plan = s.server.plans.planFor(st); made.plan != nil {
			send = made.plan.SQL
		}
	}
	s.names.addStatement(name, made)
	if send == sql {
		return s.forwardFrame(f, r)
	}
	return s.forwardFrame(newParseFrame(name, send, types), r)
}

func (s *session) handleBind(f *frame) error {
	to, rest, ok := cutCString(f.body)
	name, _, ok2 := cutCString(rest)
	if !ok || !ok2 {
		return protocolViolation("invalid string in message")
	}
	r := s.newReplyTo(f)
	r.name, r.portal = to, s.names.portals[to]
	if of := s.names.statements[name]; of != nil {
		s.names.addPortal(to, &portal{of: of, bind: f.body, bytes: f.dataBytes()})
	}
	if f.replayed {
		if err := s.closePortal(to); err != nil {
			return err
		}
	}
	return s.forwardFrame(f, r)
}

// rebindPortal binds a portal of the client again, after PostgreSQL has dropped it.
func (s *session) rebindPortal(name string, p *portal) error {
	p.epoch = s.names.epoch
	if err := s.closePortal(name); err != nil {
		return err
	}
	return s.forwardOwnFrame(&frame{kind: 'B', body: p.bind})
}

// closePortal closes a named portal in PostgreSQL, so that the session can bind it again. A portal that was bound
// before dsqlsim's savepoint survives a return to the savepoint, and would be in the way.
func (s *session) closePortal(name string) error {
	if name == "" {
		return nil
	}
	return s.forwardOwnFrame(newCloseFrame('P', name))
}

// handleExecute passes a client's Execute on to PostgreSQL, or answers it with an error where a cluster would.
func (s *session) handleExecute(f *frame) error {
	name, rest, ok := cutCString(f.body)
	if !ok || len(rest) != 4 {
		return protocolViolation("invalid string in message")
	}
	p := s.names.portals[name]
	r := s.newReplyTo(f)
	s.turn.busy = true
	if s.server.config.WithoutSuspension && int32(binary.BigEndian.Uint32(rest)) > 0 {
		return s.failUpstream(r, noSuspension)
	}
	if p == nil || p.of.onlyStatement() == nil {
		s.block.log.incomplete = s.block.log.incomplete || p == nil
		return s.forwardFrame(f, r)
	}
	r.text, r.bytes = p.of.text, p.bytes
	switch {
	case !p.started:
		return s.startPortal(f, name, p, r)
	case s.names.isDropped(p) && s.status == statusInBlock:
		return s.failUpstream(r, dataConflict) // the portal's position is lost
	}
	return s.forwardFrame(f, r)
}

// startPortal passes the first Execute of a portal on to PostgreSQL.
func (s *session) startPortal(f *frame, name string, p *portal, r pendingReply) error {
	st := p.of.onlyStatement()
	if s.mustDrainReplies(st, p) {
		if err := s.drainReplies(); err != nil || s.skipping {
			return err
		}
		r.status = s.status
	}
	p.started, r.portal = true, p
	failed, err := s.checkStatement(f, st, s.status)
	if err == nil && failed == nil {
		failed, err = s.prepareTransaction(st, rowCapture{plan: p.of.plan, types: p.of.types, values: p.bindValues()})
	}
	switch {
	case err != nil:
		return err
	case failed == nil && s.block.attempt.guessing:
		return s.runGuess(st, p, r)
	case failed == nil:
		whole := int32(binary.BigEndian.Uint32(f.body[len(name)+1:])) <= 0
		return s.runPortal(f, name, whole, st, p, r)
	case conflictsAtCommit(st, s.status, failed):
		return s.rollbackInsteadOfCommit(r, failed)
	}
	return s.failUpstream(r, failed)
}

// mustDrainReplies reports whether the session must read all earlier replies before it can decide how to run a
// statement.
func (s *session) mustDrainReplies(st *dialect.Statement, p *portal) bool {
	b, commits := &s.block, st.Kind == dialect.Commit
	switch {
	case s.server.plan.pending.Load() > 0, commits && s.replies.mayExceedLimits(&s.server.config.Limits):
		return true
	case s.status != statusInBlock:
		return false
	case b.log.parked, b.attempt.guessing, p.of.plan != nil:
		return true
	}
	return commits && (s.needsCertification() || s.server.certifier.KeyCount() > 0)
}

// runPortal forwards an Execute. If the statement has the first effect of a block, runPortal sets dsqlsim's savepoint
// before it. If PostgreSQL has dropped the portal, runPortal binds the portal again. whole means that the Execute has
// no limit on rows.
func (s *session) runPortal(f *frame, name string, whole bool, st *dialect.Statement, p *portal, r pendingReply) error {
	r.mayWait = mayWaitForLock(st)
	if whole && s.locksOutsideBlock(st, s.status) {
		r.mayWait = true
		return s.runOwnStatement(st.SQL, p.of.types, p.bindValues(), r)
	}
	inBlock := s.status == statusInBlock
	if inBlock && hasEffect(st) {
		r.effect = newLoggedEffect(st, s.server.plans.upstreamSpelling(st), p.of.types, p.bindValues())
		if !s.block.log.savepointSet && !s.block.log.savepointSent {
			if err := s.setSavepoint(); err != nil {
				return err
			}
		}
	}
	if s.names.isDropped(p) {
		if err := s.rebindPortal(name, p); err != nil {
			return err
		}
	}
	s.status = statusAfter(s.status, st.Kind)
	fails := s.armInterruption(&r, 0)
	if err := s.forwardFrame(f, r); err != nil || !fails {
		return err
	}
	return s.forwardFrame(newParseFrame(ownName, markerSQL, nil), pendingReply{kind: 'P', silent: true, name: ownName, interruption: r.interruption})
}

// beginName and savepointName are the names of two of dsqlsim's own statements, which stay prepared in a session.
const (
	beginName     = ownName + " begin"
	savepointName = ownName + " savepoint"
)

// openDeferredBlock sends the deferred BEGIN of the client's block to PostgreSQL. The BEGIN travels with the block's
// first statement, which saves most blocks a round trip.
func (s *session) openDeferredBlock() error {
	if !s.block.deferred {
		return nil
	}
	s.block.deferred = false
	return s.runPreparedOwn(beginName, s.block.beginSQL, pendingReply{kind: 'E', silent: true, begin: true})
}

// setSavepoint sends the SAVEPOINT to which dsqlsim can later return the block, without waiting for the reply.
func (s *session) setSavepoint() error {
	s.block.log.savepointSent = true
	return s.runPreparedOwn(savepointName, savepointSQL, pendingReply{kind: 'E', silent: true, savepoint: true})
}

// runPreparedOwn runs one of dsqlsim's own statements that stay prepared. r is the pending reply to its Execute.
func (s *session) runPreparedOwn(name, sql string, r pendingReply) error {
	if s.names.standing[name] != sql {
		for _, f := range []*frame{newCloseFrame('S', name), newParseFrame(name, sql, nil)} {
			if err := s.forwardFrame(f, pendingReply{kind: f.kind, silent: true, name: name}); err != nil {
				return err
			}
		}
		s.names.standing[name] = sql
	}
	if err := s.forwardOwnFrame(newBindFrame(name, noValues)); err != nil {
		return err
	}
	return s.forwardFrame(newExecuteFrame(name), r)
}

// runOwnStatement runs one of dsqlsim's own statements. types are parameter types as in a Parse, values as in a
// Bind's body. r is the pending reply to its Execute.
func (s *session) runOwnStatement(sql string, types, values []byte, r pendingReply) error {
	frames := ownStatementFrames(sql, types, values)
	last := len(frames) - 1
	for _, f := range frames[:last] {
		if err := s.forwardOwnFrame(f); err != nil {
			return err
		}
	}
	return s.forwardFrame(frames[last], r)
}

// rollbackInsteadOfCommit runs ROLLBACK instead of a COMMIT, whose pending reply is r, and answers the client with
// the error in parameter why. The session then skips the client's frames up to Sync, as after any error.
func (s *session) rollbackInsteadOfCommit(r pendingReply, why *failure) error {
	r.replaced = &failedCommit{0, why}
	if err := s.runOwnStatement("ROLLBACK", nil, noValues, r); err != nil {
		return err
	}
	if err := s.drainReplies(); err != nil {
		return err
	}
	s.skipping = true
	return nil
}

// runGuess runs a query instead of a statement's Execute. The query shows the likely outcome of the statement, which
// cannot run any more.
func (s *session) runGuess(st *dialect.Statement, p *portal, r pendingReply) error {
	sql := r.guessOutcome(st)
	if r.guess == nil {
		return s.failUpstream(r, dataConflict)
	}
	s.block.recordLostWrite(st.SQL)
	types, err := s.queryParameterTypes(s.server.plans.upstreamSpelling(st), p.of.types)
	if err != nil {
		return err
	}
	return s.runOwnStatement(sql, types, p.bindValues(), r)
}

// queryParameterTypes returns the types that PostgreSQL infers for a statement's parameters, encoded as in a Parse.
// The query that replaces the statement needs these types, because it may not use all parameters.
func (s *session) queryParameterTypes(sql string, types []byte) ([]byte, error) {
	answer, err := s.exchangeUpstream(newCloseFrame('S', ownName), newParseFrame(ownName, sql, types),
		&frame{kind: 'D', body: []byte("S" + ownName + "\x00")})
	if err != nil || answer.failed != nil {
		return types, err
	}
	out := binary.BigEndian.AppendUint16(nil, uint16(len(answer.parameters)))
	for _, oid := range answer.parameters {
		out = binary.BigEndian.AppendUint32(out, oid)
	}
	return out, nil
}

func (s *session) handleDescribe(f *frame) error {
	kind, name, err := parseTarget(f)
	if err != nil {
		return err
	}
	of, portal := s.names.findNamed(kind, name)
	r := s.newReplyTo(f)
	if of != nil {
		r.text = of.text
	}
	if portal != nil && s.names.isDropped(portal) && s.status == statusInBlock {
		if portal.started { // as its Execute would: PostgreSQL does not know the portal any more
			return s.failUpstream(r, dataConflict)
		}
		if err := s.rebindPortal(name, portal); err != nil {
			return err
		}
	}
	return s.forwardFrame(f, r)
}

func (s *session) handleClose(f *frame) error {
	kind, name, err := parseTarget(f)
	if err != nil {
		return err
	}
	r := s.newReplyTo(f)
	r.name = name
	if kind == 'S' {
		r.previous = s.names.statements[name]
		delete(s.names.statements, name)
	} else {
		r.portal = s.names.portals[name]
		delete(s.names.portals, name)
	}
	return s.forwardFrame(f, r)
}

// parseTarget returns the kind (S or P) and the name in a Describe or Close.
func parseTarget(f *frame) (kind byte, name string, err error) {
	if len(f.body) < 2 || bytes.IndexByte(f.body, 0) != len(f.body)-1 {
		return 0, "", protocolViolation("invalid message format")
	}
	return f.body[0], string(f.body[1 : len(f.body)-1]), nil
}
