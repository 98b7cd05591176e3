package proxy

import (
	"encoding/binary"
	"time"

	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Statements about advisory locks as the protocol has them: the types and values of their
// parameters, and their answers, which have one column of type void or boolean.

// lockMoment is until when a statement waits for a promise that goes in front of it. It is refused
// behind that, and the session keeps its locks.
func lockMoment() time.Time { return time.Now().Add(lockEnd) }

// lockParams is the ParameterDescription of a statement, which the server would give: a client that
// has named no types is told those of the function.
func lockParams(st *rewrite.Statement, oids string) ([]byte, error) {
	types, err := advisory.ParamTypes(st.Advisory, oids)
	if err != nil {
		return nil, err
	}
	b := wire.AppendHeader(nil, wire.ParameterDescription, 2+4*len(types))
	b = binary.BigEndian.AppendUint16(b, uint16(len(types)))
	for _, t := range types {
		b = binary.BigEndian.AppendUint32(b, t)
	}
	return b, nil
}

// bindLock reads what follows the names of a Bind into the portal: the key, and the format that
// the answer is to have. The errors are PostgreSQL's.
func (p *portal) bindLock(a *rewrite.Advisory, oids string, statement, rest []byte) error {
	types, err := advisory.ParamTypes(a, oids)
	if err != nil {
		return err
	}
	if err := checkBind(rest, len(types), statement); err != nil {
		return err
	}
	values, formats, ok := advisory.Values(rest)
	if !ok {
		return wire.ErrFormat
	}
	if p.binary, err = advisory.Binary(formats); err != nil {
		return err
	}
	p.key, err = advisory.BoundKey(a, types, values)
	return err
}

func runLock(s *session, st *rewrite.Statement) ([][]byte, error) {
	return s.performLock(st.Advisory, s.t.call)
}

// performLock does a statement about advisory locks, with the key of the portal at hand where
// there is one, and returns its answer without the tag: notices first, then the row. An error is
// for the client, or the session's end, and then nothing was done.
func (s *session) performLock(a *rewrite.Advisory, p *portal) (frames [][]byte, err error) {
	key, binaryForm := []int64(nil), false
	if p != nil {
		key, binaryForm = p.key, p.binary
	} else if key, err = advisory.KeyOf(a, nil); err != nil {
		return nil, err
	}
	ok, frames, err := s.runAdvisory(a, key)
	if err != nil {
		return nil, err
	}
	switch {
	case key == nil && a.Verb != rewrite.UnlockAllAdvisory:
		return append(frames, result.Null()), nil
	case a.Verb == rewrite.LockAdvisory, a.Verb == rewrite.UnlockAllAdvisory:
		return append(frames, result.Row("")), nil
	case binaryForm && ok:
		return append(frames, result.Row("\x01")), nil
	case binaryForm:
		return append(frames, result.Row("\x00")), nil
	case ok:
		return append(frames, result.Row("t")), nil
	}
	return append(frames, result.Row("f")), nil
}
