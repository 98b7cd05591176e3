package proxy

import (
	"cmp"

	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/ddl"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/options"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file commits transactions with DDL in parts (ddl.in_transactions). In DSQL a transaction takes one DDL
// statement, and no changes of rows beside it. Migration tools put a whole migration into one transaction.
//
// A part is committed as late as possible: when a statement arrives that cannot be in it. A transaction with at most
// one DDL statement therefore runs as usual, and a rollback undoes the last part. Each part is a transaction of its
// own, with its own log and replays.
//
//	in a block               a statement that cannot be in the part: COMMIT and BEGIN precede it
//	several steps            a statement that Sluice runs in transactions of its own: between two parts
//	multi-statement query    cut into groups, each like a Query of its own
//
// Sluice refuses the statement instead of an early commit that would do more than the client asked for. That is so
// after DROP of something with rows, after SET LOCAL, and within a pipeline. A block with modes that Sluice's BEGIN
// would lose, such as READ ONLY, is sent to the server as it is. So is a text that the server refuses in any case.
//
// Savepoints end with their part, except those after which nothing ran (partsaves.go).
//
// The client gets a WARNING for each early commit, and for each ROLLBACK that cannot undo earlier parts. After an early
// commit, errors of a conflict are replaced (partialCommitError): the client would run the whole transaction again.

// blockParts is the state of a client's block that Sluice may commit in several transactions (parts) for its DDL.
type blockParts struct {
	// inTransactions is the client's value of ddl.in_transactions, and never RefuseDDL. It is constant in a block.
	inTransactions rewrite.DDLInTransactions
	// options has the client's options (ddl.in_transactions and the like) since an early commit of a part.
	options options.BlockOptions
	// openDemand describes what the uncommitted part contains, and openStatements lists its statements.
	// committedStatements lists the statements of the committed parts.
	openDemand          rewrite.TxDemand
	openStatements      listing.Statements
	committedStatements listing.Statements
	// savepoints are the savepoints of committed parts, newest last. No rollback to these savepoints is possible.
	savepoints []string
	// optedOut means that the client wants no replay of its block.
	optedOut bool
	// timed is the transaction time of the first part that read the clock, or nil. Statements of later parts return the
	// same time (parttime.go). asked is the time of the part that is being committed.
	timed   *txtime.Time
	asked   txtime.Value
	commits int // see commitCount
}

// newBlockParts returns the state for blocks that are committed in parts, or nil if how refuses DDL in blocks. Sessions
// with dedicated backends never commit in parts.
func newBlockParts(how rewrite.DDLInTransactions, dedicated bool) *blockParts {
	if how == rewrite.RefuseDDL || dedicated {
		return nil
	}
	return &blockParts{inTransactions: how}
}

// commitCount returns how many parts were committed, or may have been. p may be nil.
func (p *blockParts) commitCount() (n int) {
	if p != nil {
		n = p.commits
	}
	return n
}

// commitPolicy returns whether the session's transactions with DDL are committed in parts. p may be nil.
func (p *blockParts) commitPolicy() rewrite.DDLInTransactions {
	if p == nil {
		return rewrite.RefuseDDL
	}
	return p.inTransactions
}

// reset resets the state of a block committed in parts, when no block is open.
func (p *blockParts) reset() { *p = blockParts{inTransactions: p.inTransactions} }

// forgetCommittedParts forgets the committed parts of a block at the end of the client's block. Sluice's own COMMIT
// between parts does not count.
func forgetCommittedParts(s *session, _ bool) {
	if p := s.parts; p != nil && !s.t.outsideBlock {
		p.options, p.committedStatements, p.savepoints, p.timed = options.BlockOptions{}, listing.Statements{}, nil, nil
	}
}

// hasCommittedPart reports whether a part of the client's transaction is committed already. p may be nil.
func (p *blockParts) hasCommittedPart() bool {
	return p != nil && (p.options.Values() != nil || !p.committedStatements.IsEmpty() || len(p.savepoints) > 0)
}

// isPartialEndPending reports whether the end of a partly committed block was sent, and is not answered yet. Until the
// answer, an error belongs to that block, while further frames belong to the next transaction.
func (s *session) isPartialEndPending() bool {
	return s.parts.hasCommittedPart() && s.hasFirstTxEnded()
}

// mayCommitInParts reports whether the session's transactions may be committed in parts, because of their DDL.
func (s *session) mayCommitInParts() bool { return s.parts != nil }

// hasCommittedStatements reports whether statements of the client's transaction are committed already.
func (s *session) hasCommittedStatements() bool {
	return s.parts != nil && !s.parts.committedStatements.IsEmpty()
}

// snapshot copies the state of a block's uncommitted part, for a later ROLLBACK TO SAVEPOINT.
func (p *blockParts) snapshot() *blockParts {
	if p == nil {
		return nil
	}
	return &blockParts{options: p.options, openDemand: p.openDemand, openStatements: p.openStatements.Snapshot()}
}

// restore restores the state of the uncommitted part that snapshot has copied to m. Both p and m may be nil.
func (p *blockParts) restore(m *blockParts) {
	if p != nil && m != nil {
		p.options, p.openDemand, p.openStatements = m.options, m.openDemand, m.openStatements.Snapshot()
	}
}

// resetBlockParts resets the state of a block committed in parts, at the end of a turn, if no block is open.
func (s *session) resetBlockParts() {
	if s.parts != nil && !s.inBlock() {
		s.parts.reset()
	}
}

// concernsBlockParts reports whether a simple Query may need a transaction with DDL to be committed in parts. For a
// single statement outside a block the result is false, except for transaction control such as BEGIN. The check
// allocates nothing, since it runs for every Query.
func (s *session) concernsBlockParts(plan *rewrite.Plan) bool {
	if !s.mayCommitInParts() {
		return false
	}
	st := plan.SingleStatement()
	return st == nil || st.Tx.Verb != rewrite.NoVerb || s.inBlock()
}

// prepareForBlockParts commits the open part of a transaction if a simple Query needs that, before the Query is
// answered or sent. done means that the Query has run and the turn is over. The caller sends an error to the client, or
// ends the session.
func (s *session) prepareForBlockParts(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if !s.concernsBlockParts(plan) {
		return false, nil
	}
	if s.mustSplitFailedBlock(plan) {
		return true, s.runStatementGroups(plan, string(sql), plan.CutIntoGroups())
	}
	if s.t.outsideBlock || s.t.touched || s.state == failed || s.txStatus() == 'E' {
		return false, s.commitPartIfNeeded(plan, string(sql), true)
	}
	// No part is committed for a text that the server refuses. A multi-statement query is refused as a whole.
	if _, ok := plan.Demand(); !ok {
		return false, nil
	}
	if groups := s.statementGroups(plan); groups != nil {
		return true, s.runStatementGroups(plan, string(sql), groups)
	}
	if st := plan.SingleStatement(); st != nil && s.inBlock() && s.mustRunOutsideBlock(st) { // a READ ONLY block never gets here
		text := string(sql)
		return true, s.runOutsideBlock(st, text[st.Start:], func() (feature.NestedResult, error) {
			return s.runNestedQuery(text, nestedTurn{outsideBlock: true, shift: s.t.shift})
		})
	}
	return false, s.commitPartIfNeeded(plan, string(sql), true)
}

// mustSplitFailedBlock reports whether a query that ends a failed block must run in groups of statements. A part of the
// block may be committed, or the query's remaining statements may be too many for one transaction.
func (s *session) mustSplitFailedBlock(plan *rewrite.Plan) bool {
	if s.t.outsideBlock || s.t.touched || s.state == failed || s.txStatus() != 'E' {
		return false
	}
	return len(plan.Statements) > 1 && (s.parts.hasCommittedPart() && hasTxBoundary(plan) || plan.ExceedsTransaction() && plan.Statements[0].Tx.Verb.EndsBlock())
}

// statementGroups returns the groups in which a text's statements must run, or nil if the text runs as a whole. If a
// part of the block is or may become committed, the block's end is a group of its own, with its own warnings.
func (s *session) statementGroups(plan *rewrite.Plan) [][2]int {
	groups := plan.TxGroups()
	switch inBlock := s.inBlock(); {
	case groups != nil && (inBlock || plan.ExceedsTransaction()):
		return groups
	case len(plan.Statements) > 1 && inBlock && (s.parts.hasCommittedPart() || s.parts.openDemand.DDL) && hasTxBoundary(plan):
		return plan.CutIntoGroups()
	}
	return nil
}

// hasTxBoundary reports whether a text begins or ends a transaction.
func hasTxBoundary(plan *rewrite.Plan) bool {
	return plan.AnyStatement(func(st *rewrite.Statement) bool { return st.Tx.Verb == rewrite.Begin || st.Tx.Verb.EndsBlock() })
}

// commitPartIfNeeded commits the open part of a block before a text is sent that cannot be in the same transaction. If
// runs is set, it adds the text to the open part. The caller sends an error to the client, or ends the session.
func (s *session) commitPartIfNeeded(plan *rewrite.Plan, sql string, runs bool) error {
	p := s.parts
	if !s.mayCommitInParts() || s.t.outsideBlock || s.state == failed && !hasTxBoundary(plan) { // outside: the statement is Sluice's own
		return nil
	}
	at := s.blockForNextStatement()
	if st := plan.SingleStatement(); st != nil && runs {
		if err := s.checkPartStatement(st, &at); err != nil {
			return err
		}
	}
	if at.Status() == 'T' && s.txStatus() != 'E' && !s.mustStayWhole() && !s.queryRunsOutsideBlock(plan) {
		// A text that the server refuses in any case must not commit the earlier statements of its transaction.
		if _, ok := plan.Demand(); !ok {
			return nil
		}
		if !p.canAdd(demandOfCurrentTx(at, plan)) {
			if err := s.commitPart(); err != nil {
				return err
			}
			at = s.blockForNextStatement()
		}
	} else if s.queryRunsOutsideBlock(plan) {
		return nil
	}
	if runs {
		if s.t.nestedTurn.hiddenAnswer != nil {
			sql = "" // the list has the client's statement that this one is for
		}
		p.addStatements(at, plan, sql)
	}
	return nil
}

// checkPartStatement checks a single statement in a block that may be committed in parts. At the end of a block it
// warns the client of parts that remain committed. It refuses DDL in a READ ONLY transaction.
func (s *session) checkPartStatement(st *rewrite.Statement, at *block.Block) error {
	switch {
	case st.Tx.Verb.EndsBlock():
		return s.warnPartsRemain(st)
	case st.MayRunInSteps() && at.Status() == 'T' && at.IsReadOnly():
		return access.WriteError(st, access.ReadOnly)
	}
	return nil
}

// demandOfCurrentTx returns what a text's statements need from the current transaction (DDL, changes of rows and the
// like). at is the block's state before the text.
func demandOfCurrentTx(at block.Block, plan *rewrite.Plan) (want rewrite.TxDemand) {
	ends := at.EndedTxCount()
	for i := range plan.Statements {
		st := &plan.Statements[i]
		if at.RecordStatement(st); at.EndedTxCount() != ends {
			break
		}
		want = want.Union(st.Demand())
	}
	return want
}

// addStatements adds a text's statements to the open part of a block. If the text ends a transaction, only statements
// after that end count. A BEGIN also includes earlier statements of its pipeline. at is the block's state before. For
// the text "" the statements are not listed.
func (p *blockParts) addStatements(at block.Block, plan *rewrite.Plan, sql string) {
	ends := at.EndedTxCount()
	for i := range plan.Statements {
		st := &plan.Statements[i]
		if at.RecordStatement(st); at.EndedTxCount() != ends {
			ends, p.openDemand, p.openStatements = at.EndedTxCount(), rewrite.TxDemand{}, listing.Statements{}
			continue
		}
		text := sql
		if len(plan.Statements) > 1 && sql != "" {
			text = sql[st.Start:st.End]
		}
		p.addStatement(st.Demand(), text, st.MayWrite())
	}
}

// canAdd reports whether statements that need want (DDL, changes of rows) can be in the block's open part.
func (p *blockParts) canAdd(want rewrite.TxDemand) bool {
	return !(want.DDL && (p.openDemand.DDL || p.openDemand.Rows)) && !(want.Rows && p.openDemand.DDL)
}

// addStatement adds a text to the open part of a block. A text that fails later does not matter, since a failed block
// commits no part. mayWrite means that the text looks like a read, but its functions or views may change rows.
func (p *blockParts) addStatement(want rewrite.TxDemand, sql string, mayWrite bool) {
	p.openDemand = p.openDemand.Union(want)
	switch {
	case sql == "":
	case want.DDL || want.Rows || want.Sets:
		p.openStatements.Add(sql)
	case mayWrite:
		p.openStatements.AddRead(sql)
	}
}

// changingStatements returns the open part's statements that may have changed something. reads says that no statement
// that looks like a read has changed anything (readPurity.wasPure).
func (p *blockParts) changingStatements(reads bool) listing.Statements {
	if reads {
		return p.openStatements.WithoutReads()
	}
	return p.openStatements
}

// warnPartsRemain warns the client at a rollback that earlier parts of the transaction remain committed.
func (s *session) warnPartsRemain(st *rewrite.Statement) error {
	rollsBack := st.Tx.Verb == rewrite.Rollback || s.txStatus() == 'E'
	if stays := &s.parts.committedStatements; rollsBack && !stays.IsEmpty() {
		return s.queueReply(partsRemainWarning(stays).AppendNotice(nil, "WARNING"))
	}
	return nil
}

// mustStayWhole reports whether the block cannot be committed in parts. One reason is a mode that Sluice's BEGIN would
// lose. The other is that Sluice has not seen the block's BEGIN.
func (s *session) mustStayWhole() bool {
	at := s.blockForNextStatement()
	m := at.Modes()
	return !at.HasSeenBegin() || m.Access == block.ReadOnly || m.Deferrable || m.Snapshot || m.Isolation == rewrite.Serializable
}

// checkEarlyCommit returns an error if committing a part of the block would do more than the client asked for.
func (s *session) checkEarlyCommit() error {
	switch p := s.parts; {
	case p.openDemand.Drops && p.inTransactions != rewrite.CommitDrops:
		lists := p.changingStatements(s.srv.purity.wasPure())
		return errDropsEarly(&lists)
	case p.openDemand.Local:
		return errLocalInParts
	}
	return nil
}

// commitPart commits the open part of a block and begins the block again. The caller sends an error to the client,
// whose block has then failed, or ends the session.
func (s *session) commitPart() error {
	if s.t.touched {
		return errPartInPipeline
	}
	if err := s.checkEarlyCommit(); err != nil {
		return err
	}
	lists, fresh := s.parts.changingStatements(s.srv.purity.wasPure()), s.emptySavepoints()
	s.parts.commits++
	left, err := s.commitOpenPart()
	if err == nil {
		err = s.beginNextPart(left.Err)
	}
	if err == nil && left.Err == nil {
		if err = s.restoreSavepoints(fresh); err == nil {
			err = s.warnPartCommitted(&lists)
		}
	}
	return cmp.Or(err, left.Cause())
}

// warnPartCommitted counts an early commit and warns the client that the statements in l are committed.
func (s *session) warnPartCommitted(l *listing.Statements) error {
	s.srv.metrics.CountEarlyCommit()
	return s.queueReply(partCommittedWarning(l).AppendNotice(nil, "WARNING"))
}

// commitOpenPart commits the open part of a block. If the result has an error, the part is not committed, or the
// outcome is unknown (08007).
func (s *session) commitOpenPart() (feature.NestedResult, error) {
	p := s.parts
	p.keepSavepoints(s.tx.log.SavepointNames())
	optedOut := s.tx.optedOut
	p.options.Keep(s.currentOptions())
	left, err := s.commitPartWithTime()
	if err == nil && s.b != nil && s.b.status != 'I' { // the COMMIT was skipped
		_, err = s.runSilentCommand("ROLLBACK", silent.ExpectRollback) // if it fails, so does beginNextPart
	}
	if err == nil && left.Err == nil {
		p.committedStatements.AppendAll(p.changingStatements(s.srv.purity.wasPure()))
	}
	p.openDemand, p.openStatements, p.optedOut = rewrite.TxDemand{}, listing.Statements{}, optedOut
	return left, err
}

// beginNextPart begins a block again after commitOpenPart, even if that COMMIT failed, since the client's error then
// fails the new block. uncommitted is the error of that COMMIT, or nil. The session ends if its pinned backend is gone
// or BEGIN fails, since the client expects a block.
func (s *session) beginNextPart(uncommitted *wire.Error) error {
	if s.pinLost {
		return nil
	}
	begun, err := s.runSilentCommand("BEGIN", silent.ExpectBegin)
	s.optOutOfReplay(s.parts.optedOut)
	if err == nil && begun.Err != nil {
		err = ddl.ErrNotBegun(begun.Err, uncommitted, &s.parts.committedStatements)
	}
	s.tx.earlierTime = s.parts.timed
	s.tx.watched = s.tx.watched || len(s.stored) > 0 // endStoredCursors
	return err
}
