package proxy

import (
	"cmp"
	"time"

	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/locktable"
	"github.com/sluice-proxy/sluice/proxy/request"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/script"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file handles parameters and answers of statements about advisory locks. An answer's column is void or boolean.

// leaseExtensionDeadline returns the time until which a statement waits for a longer lease of the session's advisory
// locks. After that time Sluice refuses the statement, and the session still has its locks.
func leaseExtensionDeadline() time.Time { return time.Now().Add(locktable.ReleaseTimeout) }

// lockParamsFrame returns the ParameterDescription that the server would send for an advisory lock call. A parameter
// whose type the client did not declare has the type of the function's parameter.
func lockParamsFrame(st *rewrite.Statement, oids string) ([]byte, error) {
	types, err := advisory.ResolveParamTypes(st.Advisory, oids)
	if err != nil {
		return nil, err
	}
	return result.DescribeParams(types), nil
}

// planAdvisoryLock plans a call of an advisory lock function in a multi-statement query. If the call is the only
// statement, it follows other frames of its Sync group, where the session can take no lock.
func planAdvisoryLock(_ *script.Planner, st *rewrite.Statement) script.Step {
	if st.Advisory.Verb != rewrite.UnlockAllAdvisory {
		return script.Step{Err: advisory.ErrInBlock}
	}
	return script.Step{Local: true}
}

// describeLock describes the answer of a lock call, in the format of its portal.
func describeLock(s *session, p portal) error {
	return s.queueReply(result.DescribeLockFormat(p.plan.SingleStatement().Advisory, p.binary))
}

// bindLockKey reads a lock's key from a Bind. It sets the portal's fields key and binary (the answer's format). Its
// errors are those of PostgreSQL.
func bindLockKey(_ *session, p portal, b pendingBind) (portal, error) {
	a := p.plan.SingleStatement().Advisory
	types, err := advisory.ResolveParamTypes(a, b.cs.Template.OIDs)
	if err != nil {
		return p, err
	}
	if err := request.ValidateBind(b.rest, len(types), b.stmt); err != nil {
		return p, err
	}
	values, formats, ok := advisory.ParseBindValues(b.rest)
	if !ok {
		return p, wire.ErrFormat
	}
	if p.binary, err = advisory.IsBinaryResult(formats); err != nil {
		return p, err
	}
	p.key, err = advisory.BoundLockKey(a, types, values)
	return p, err
}

// runAdvisoryStatement is the handler of statements about advisory locks (runLockStatement).
func runAdvisoryStatement(s *session, st *rewrite.Statement) ([][]byte, error) {
	return s.runLockStatement(st, s.t.request.call)
}

// runLockStatement runs a statement about advisory locks and returns its answer without the tag: notices, then the
// row. p is the portal with the key, or nil if the key is in the text. After an error, which goes to the client or
// ends the session, the statement had no effect. As in PostgreSQL, a simple Query's RowDescription precedes an error
// of the execution, such as a timeout.
func (s *session) runLockStatement(st *rewrite.Statement, p *portal) (frames [][]byte, err error) {
	a, key, binaryForm := st.Advisory, []int64(nil), false
	if p != nil {
		key, binaryForm = p.key, p.binary
	} else if key, err = advisory.LockKey(a, nil); err != nil {
		return nil, err
	}
	ok, frames, err := s.runAdvisoryLock(a, key)
	if p == nil && isRefusal(err) && err != advisory.ErrInBlock {
		err = cmp.Or(s.queueReply(result.DescribeLock(st)), err)
	}
	if err != nil {
		return nil, err
	}
	if key == nil && a.Verb != rewrite.UnlockAllAdvisory {
		return append(frames, result.NullRow()), nil
	}
	return append(frames, result.LockRow(a, ok, binaryForm)), nil
}
