package dsqlsim

import (
	"encoding/binary"
	"io"

	"github.com/jackc/pgx/v5/pgproto3"
)

// maxAsideRows bounds the rows that are kept of an answer to ourselves.
const maxAsideRows = 100_000

// told is PostgreSQL's answer to something of ours.
type told struct {
	rows       [][][]byte
	tag        string
	sum        uint64
	parameters []uint32
	failed     *pgproto3.ErrorResponse
}

// aside says something to PostgreSQL that the client does not hear of, and
// reads up to ReadyForQuery. Only what cannot fail may be owed, and the session
// must be in a block: there a Sync or Query of ours ends nothing of the client's.
func (s *session) aside(packets ...[]byte) (*told, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	if err := s.settle(); err != nil {
		return nil, err
	}
	for _, p := range packets {
		if _, err := s.send.Write(p); err != nil {
			return nil, upstreamError(err)
		}
	}
	s.waiting(true)
	defer s.waiting(false)
	if err := s.flush(); err != nil {
		return nil, err
	}
	return s.hear()
}

// ask is aside with one statement. It is not a simple Query, which would destroy
// the client's unnamed statement and portal.
func (s *session) ask(sql string) (*told, error) {
	return s.aside(bound(sql, nil, noValues)...)
}

// hear reads, for ourselves, up to ReadyForQuery.
func (s *session) hear() (*told, error) {
	t := &told{}
	for {
		kind, total, err := s.header()
		if err != nil {
			return nil, err
		}
		switch kind {
		case 'D', 'C', 'E', 'Z', 't':
		case 'S': // a setting that comes or goes is the client's to know
			if err := s.relay(total); err != nil {
				return nil, err
			}
			continue
		default:
			if _, err := io.CopyN(io.Discard, s.up, int64(total)); err != nil {
				return nil, upstreamError(err)
			}
			continue
		}
		body, err := s.take(total)
		if err != nil {
			return nil, err
		}
		if kind == 'Z' {
			s.status = body[0]
			return t, nil
		}
		if err := t.add(kind, body); err != nil {
			return nil, upstreamError(err)
		}
	}
}

// add takes one message into the answer.
func (t *told) add(kind byte, body []byte) error {
	switch kind {
	case 'D':
		t.sum += sumOf(body)
		if len(t.rows) >= maxAsideRows {
			return nil
		}
		var row pgproto3.DataRow
		if err := row.Decode(body); err != nil {
			return err
		}
		t.rows = append(t.rows, row.Values)
	case 'C':
		t.tag = string(body[:len(body)-1])
	case 't':
		for rest := body[2:]; len(rest) >= 4; rest = rest[4:] {
			t.parameters = append(t.parameters, binary.BigEndian.Uint32(rest))
		}
	case 'E':
		if t.failed == nil {
			t.failed = &pgproto3.ErrorResponse{}
			return t.failed.Decode(body)
		}
	}
	return nil
}

// bound makes the packets that run a statement of ours with the client's
// values.
func bound(sql string, types, values []byte) [][]byte {
	bind := append([]byte(ownName+"\x00"+ownName+"\x00"), values...)
	return [][]byte{
		encode(&pgproto3.Close{ObjectType: 'S', Name: ownName}),
		encode(&pgproto3.Close{ObjectType: 'P', Name: ownName}),
		parseFrame(ownName, sql, types).packet(),
		appendFrame(nil, 'B', bind),
		encode(&pgproto3.Execute{Portal: ownName}),
		encode(&pgproto3.Sync{}),
	}
}
