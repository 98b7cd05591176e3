package dsqlsim

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgproto3"
)

// frameHeader is the length of a frame's header in bytes: the type byte and the length.
const frameHeader = 5

// maxReply bounds the replies of PostgreSQL that the session decodes, in bytes. It relays a longer reply unread; only
// an error could be that long.
const maxReply = 1 << 20

var errTooLong = errors.New("message too long")

// frame is one message of the protocol; body excludes the header.
type frame struct {
	kind byte
	body []byte
	// replayed means that the session put the frame back into its queue (see replayFrames), and now sends the frame
	// once more.
	replayed bool
	// nextStatement is the index of the statement with which the session continues a multi-statement Query.
	nextStatement int
	// ofQuery reports that the frame is one of those that replace a simple Query (see splitQuery). queryBytes is the
	// number of the Query's bytes that a Bind replaces.
	ofQuery    bool
	queryBytes int
}

// readFrame reads one frame whose body has max bytes at most. The caller owns the body.
func readFrame(r io.Reader, max int) (frame, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, fmt.Errorf("read message: %w", err)
	}
	n, err := bodyLength(header[:])
	if err != nil {
		return frame{}, err
	}
	if n > max {
		return frame{}, errTooLong
	}
	f := frame{kind: header[0]}
	if n == 0 {
		return f, nil
	}
	f.body = make([]byte, n)
	if _, err := io.ReadFull(r, f.body); err != nil {
		return frame{}, fmt.Errorf("read message: %w", err)
	}
	return f, nil
}

// bodyLength returns the length of a frame's body, from the frame's header.
func bodyLength(header []byte) (int, error) {
	n := int32(binary.BigEndian.Uint32(header[1:]))
	if n < 4 {
		return 0, fmt.Errorf("message with length %d", n)
	}
	return int(n) - 4, nil
}

// frameLength returns the length of a whole frame, from the frame's header.
func frameLength(header []byte) int { return int(binary.BigEndian.Uint32(header[1:])) + 1 }

func appendFrame(out []byte, kind byte, body []byte) []byte {
	out = append(out, kind)
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)+4))
	return append(out, body...)
}

func writeFrame(w *bufio.Writer, kind byte, body []byte) error {
	var header [frameHeader]byte
	header[0] = kind
	binary.BigEndian.PutUint32(header[1:], uint32(len(body)+4))
	if _, err := w.Write(header[:]); err != nil {
		return err
	}
	_, err := w.Write(body)
	return err
}

// relayFrame copies the next frame of r to w, whatever its size, without holding it in memory. total includes the
// header.
func relayFrame(w *bufio.Writer, r *bufio.Reader, total int) error {
	if total <= r.Size() {
		b, err := r.Peek(total)
		if err != nil {
			return upstreamError(err)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		_, err = r.Discard(total)
		return err
	}
	_, err := io.CopyN(w, r, int64(total))
	return err
}

// cutCString cuts a zero-terminated string off the start of a frame's body.
func cutCString(b []byte) (s string, rest []byte, ok bool) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), b[i+1:], true
		}
	}
	return "", nil, false
}

// ownStatementFrames returns the frames that run one of dsqlsim's own statements. types has parameter types, encoded
// as in a Parse, or is nil. values is a Bind's body after the two names.
func ownStatementFrames(sql string, types, values []byte) []*frame {
	return []*frame{
		newCloseFrame('S', ownName), newCloseFrame('P', ownName),
		newParseFrame(ownName, sql, types), newBindFrame(ownName, values), newExecuteFrame(ownName),
	}
}

// newParseFrame returns a Parse. types is the last part of the Parse's body, which has the parameter types, or nil
// for none.
func newParseFrame(name, sql string, types []byte) *frame {
	body := append([]byte(name), 0)
	body = append(append(body, sql...), 0)
	if types == nil {
		types = []byte{0, 0}
	}
	return &frame{kind: 'P', body: append(body, types...)}
}

// newBindFrame returns a Bind of a statement to a portal of the same name. values is the Bind's body after the two
// names.
func newBindFrame(name string, values []byte) *frame {
	return &frame{kind: 'B', body: append([]byte(name+"\x00"+name+"\x00"), values...)}
}

// noValues is a Bind's body after the two names, for a statement without parameters.
var noValues = make([]byte, 6)

// newExecuteFrame returns an Execute without a limit on rows.
func newExecuteFrame(portal string) *frame {
	return &frame{kind: 'E', body: []byte(portal + "\x00\x00\x00\x00\x00")}
}

// newCloseFrame returns a Close of a statement (S) or portal (P).
func newCloseFrame(kind byte, name string) *frame {
	return &frame{kind: 'C', body: []byte(string(rune(kind)) + name + "\x00")}
}

// encodeMessage encodes a message that dsqlsim itself makes. It panics if the message is too long, which never
// happens.
func encodeMessage(m pgproto3.Message) []byte {
	out, err := m.Encode(nil)
	if err != nil {
		panic(err)
	}
	return out
}
