package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// This file handles savepoints of a transaction that is committed in parts (parts.go).
//
// A savepoint ends with its part, since a commit cannot be undone. RELEASE of such a savepoint succeeds, and releases
// all later savepoints, as in PostgreSQL. ROLLBACK TO is refused.
//
// If nothing ran after a savepoint before its part was committed, the next part sets it again. ROLLBACK TO then reaches
// the same state. Migration tools need this: they send SAVEPOINT, then an INSERT before which Sluice commits earlier
// DDL, and ROLLBACK TO after 23505.

// maxKeptSavepoints is the largest number of savepoints' names that Sluice remembers of a block's committed parts.
const maxKeptSavepoints = 100

// keepSavepoints records the names of the savepoints of a committed part. Above the limit it forgets the oldest.
func (p *blockParts) keepSavepoints(names []string) {
	p.savepoints = append(p.savepoints, names...)
	p.savepoints = slices.Clone(p.savepoints[max(0, len(p.savepoints)-maxKeptSavepoints):])
}

// emptySavepoints returns the latest savepoints of a block's open part after which nothing ran, in order. A statement
// that Sluice answers, such as SET or DECLARE, has run in this sense.
func (s *session) emptySavepoints() []string {
	l := s.tx.log
	if !l.Replayable() {
		return nil
	}
	i := l.SavepointCount()
	for ; i > 0; i-- {
		m := &s.tx.marks[i-1]
		if l.FirstTurnAfter(i-1) != l.TurnCount() || m.cursors != s.tx.cursors || m.txParsing != s.txParsing ||
			len(m.staged.Changes) != len(s.settings.Staged.Changes) || !s.settings.IsUnchangedSince(m.stood) {
			break
		}
	}
	return l.SavepointNames()[i:]
}

// restoreSavepoints sets savepoints again at the beginning of a new part, and removes them from the savepoints of
// committed parts. If a savepoint cannot be set, ROLLBACK TO that savepoint is refused later.
func (s *session) restoreSavepoints(fresh []string) error {
	p := s.parts
	for _, name := range fresh {
		set, err := s.runSilentCommand("SAVEPOINT "+parse.QuoteIdent(name), silent.ExpectInBlock("SAVEPOINT"))
		if err != nil {
			return err
		}
		if set.Err != nil {
			return nil
		}
		if i := lastIndexOf(p.savepoints, name); i >= 0 { // otherwise the limit has removed it
			p.savepoints = slices.Delete(p.savepoints, i, i+1)
		}
	}
	return nil
}

// lastIndexOf returns the index of the last savepoint with the name, or -1.
func lastIndexOf(names []string, name string) int {
	for i, n := range slices.Backward(names) {
		if n == name {
			return i
		}
	}
	return -1
}

// handleCommittedSavepoint answers RELEASE of a savepoint whose part of the block is committed, and refuses ROLLBACK TO
// such a savepoint. done is false for other names.
func (s *session) handleCommittedSavepoint(verb rewrite.TxVerb, name string) (done bool, err error) {
	if s.parts == nil {
		return false, nil
	}
	i := lastIndexOf(s.parts.savepoints, name)
	switch {
	case i < 0 || verb == rewrite.Savepoint:
		return false, nil
	case verb == rewrite.RollbackTo:
		return true, errCannotReturn(name, "What the transaction did before is committed ("+rewrite.InTransactionsKey+"): "+s.parts.committedStatements.String()+".")
	}
	s.parts.savepoints = s.parts.savepoints[:i]
	if s.tx.log.SavepointCount() > 0 { // these are later savepoints
		s.tx.log.ReleaseSavepoint(0)
		s.tx.marks = nil
	}
	return true, s.queueReply(wire.AppendCommandComplete(nil, "RELEASE"))
}
