package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Savepoints of a transaction that is committed in parts (parts.go).
//
// A savepoint ends with its part: nothing undoes what is committed. To release it is to say that
// what stands behind it shall stay, which it does, and releases all that were set since, as in
// PostgreSQL; a return to it is refused.
//
// One behind which nothing was run when its part is committed is set again at the beginning of
// the next part: a return to it is a return to the same state. So goes what tools do within a
// migration: SAVEPOINT, an INSERT in front of which Sluice commits the DDL before it, 23505,
// ROLLBACK TO.

// mostNames bounds the savepoints of earlier parts whose names are known.
const mostNames = 100

// keepNames takes the savepoints of a part that is committed. The oldest are forgotten first.
func (p *parts) keepNames(names []string) {
	p.savepoints = append(p.savepoints, names...)
	p.savepoints = slices.Clone(p.savepoints[max(0, len(p.savepoints)-mostNames):])
}

// freshNames are the savepoints of the part that is open behind which nothing was run, in their
// order, which are the last that were set. What Sluice answers itself counts as well: a setting, a
// cursor.
func (s *session) freshNames() []string {
	l := s.tx.log
	if !l.Replayable() {
		return nil
	}
	i := l.Savepoints()
	for ; i > 0; i-- {
		m := &s.tx.marks[i-1]
		if l.Since(i-1) != l.Turns() || m.cursors != s.tx.cursors || m.txParsing != s.txParsing ||
			len(m.staged.Changes) != len(s.settings.Staged.Changes) || !s.settings.Stands(m.stood) {
			break
		}
	}
	return l.Names()[i:]
}

// carryNames sets savepoints again, at the beginning of the part that was just begun, and takes them
// off those that nobody can return to. One that cannot be set stays among these.
func (s *session) carryNames(fresh []string) error {
	p := s.parts
	for _, name := range fresh {
		set, err := s.command("SAVEPOINT "+quoted(name), silent.Within("SAVEPOINT"))
		if err != nil {
			return err
		}
		if set.Err != nil {
			return nil
		}
		if i := newest(p.savepoints, name); i >= 0 { // else it was forgotten
			p.savepoints = slices.Delete(p.savepoints, i, i+1)
		}
	}
	return nil
}

// newest is the index of the last savepoint of that name, or -1.
func newest(names []string, name string) int {
	for i, n := range slices.Backward(names) {
		if n == name {
			return i
		}
	}
	return -1
}

// releasedBefore answers RELEASE of a savepoint of a part that is committed, and refuses a
// return to one. done is false for any other name.
func (s *session) releasedBefore(verb rewrite.Verb, name string) (done bool, err error) {
	if s.parts == nil {
		return false, nil
	}
	i := newest(s.parts.savepoints, name)
	switch {
	case i < 0 || verb == rewrite.Savepoint:
		return false, nil
	case verb == rewrite.RollbackTo:
		return true, errNoReturn(name, "What the transaction did before is committed ("+rewrite.InTransactionsKey+"): "+s.parts.stays.String()+".")
	}
	s.parts.savepoints = s.parts.savepoints[:i]
	if s.tx.log.Savepoints() > 0 { // those were set since
		s.tx.log.Release(0)
		s.tx.marks = nil
	}
	return true, s.tell(wire.AppendCommand(nil, "RELEASE"))
}
