package dsqlsim

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgproto3"
)

// maxAnswerRows bounds the number of rows in PostgreSQL's answer to a statement that dsqlsim sends for itself.
const maxAnswerRows = 100_000

// ownAnswer is PostgreSQL's answer to a statement that dsqlsim sent for itself, not for the client.
type ownAnswer struct {
	rows       [][][]byte
	tag        string
	sum        uint64
	parameters []uint32
	failed     *pgproto3.ErrorResponse
}

// exchangeUpstream sends frames and a Sync to PostgreSQL and returns the answer up to ReadyForQuery. The client sees
// neither the frames nor the answer. Pending replies may only be of frames that cannot fail. The session must be in
// a block, where this Sync ends no transaction of the client.
func (s *session) exchangeUpstream(frames ...*frame) (*ownAnswer, error) {
	if err := s.openDeferredBlock(); err != nil {
		return nil, err
	}
	if err := s.drainReplies(); err != nil {
		return nil, err
	}
	for _, f := range append(frames, newCloseFrame('P', ownName), &frame{kind: 'S'}) { // an open portal keeps its tables from DDL
		if err := s.upstream.write(f.kind, f.body); err != nil {
			return nil, err
		}
	}
	s.markWaiting(true)
	defer s.markWaiting(false)
	if err := s.upstream.flush(); err != nil {
		return nil, err
	}
	return s.readOwnAnswer()
}

// queryUpstream runs one of dsqlsim's own statements in the client's block and returns its answer. A simple Query
// would destroy the client's unnamed statement and portal, so the extended protocol is used.
func (s *session) queryUpstream(sql string) (*ownAnswer, error) {
	return s.exchangeUpstream(ownStatementFrames(sql, nil, noValues)...)
}

// readOwnAnswer reads PostgreSQL's frames up to ReadyForQuery and returns them as an answer. It relays only
// ParameterStatus to the client.
func (s *session) readOwnAnswer() (*ownAnswer, error) {
	a := &ownAnswer{}
	for {
		kind, total, err := s.upstream.peekHeader()
		if err != nil {
			return nil, err
		}
		switch kind {
		case 'D', 'C', 'E', 'Z', 't':
		case 'S': // the client must see changes of parameters
			if err := s.relayReply(total); err != nil {
				return nil, err
			}
			continue
		default:
			if err := s.upstream.discardFrame(total); err != nil {
				return nil, err
			}
			continue
		}
		body, err := s.upstream.readBody(total)
		if err != nil {
			return nil, err
		}
		if kind == 'Z' {
			s.status = body[0]
			return a, nil
		}
		if err := a.addMessage(kind, body); err != nil {
			return nil, upstreamError(err)
		}
	}
}

// addMessage adds one message of PostgreSQL to the answer.
func (a *ownAnswer) addMessage(kind byte, body []byte) error {
	switch kind {
	case 'D':
		a.sum += rowDigest(body)
		if len(a.rows) >= maxAnswerRows {
			return nil
		}
		var row pgproto3.DataRow
		if err := row.Decode(body); err != nil {
			return err
		}
		a.rows = append(a.rows, row.Values)
	case 'C':
		a.tag = string(body[:len(body)-1])
	case 't':
		for rest := body[2:]; len(rest) >= 4; rest = rest[4:] {
			a.parameters = append(a.parameters, binary.BigEndian.Uint32(rest))
		}
	case 'E':
		if a.failed == nil {
			a.failed = &pgproto3.ErrorResponse{}
			return a.failed.Decode(body)
		}
	}
	return nil
}
