package doctor

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// maxAnswer bounds a frame of a server's answer to check or doctor, in bytes. Actual frames have under 300 bytes.
const maxAnswer = 64 << 10

// runQuery sends a simple Query and reads the answer up to ReadyForQuery. runQuery calls row with the first value of
// each row. After a *serverError the connection is usable, after any other error it is not.
func runQuery(conn net.Conn, sql string, row func(first string)) error {
	return sendAndReceive(conn, appendFrame(nil, 'Q', sql+"\x00"), false, row)
}

// appendFrame appends to b a frame of the given type.
func appendFrame(b []byte, typ byte, body string) []byte {
	b = binary.BigEndian.AppendUint32(append(b, typ), uint32(4+len(body)))
	return append(b, body...)
}

// appendStatement appends to b the frames of the extended protocol that run a statement without parameters.
func appendStatement(b []byte, sql string) []byte {
	b = appendFrame(b, 'P', "\x00"+sql+"\x00\x00\x00")
	b = appendFrame(b, 'B', "\x00\x00\x00\x00\x00\x00\x00\x00")
	return appendFrame(b, 'E', "\x00\x00\x00\x00\x00")
}

// sendAndReceive sends a request and reads the answer up to ReadyForQuery, as runQuery does. If flushed is set, the
// request is one statement with a Flush, and the answer ends with its tag or its error.
func sendAndReceive(conn net.Conn, request []byte, flushed bool, row func(first string)) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	answered := request[0] == 'S' // a lone Sync has no other answer
	var refused error
	for in := bufio.NewReader(conn); ; {
		var header [5]byte
		if _, err := io.ReadFull(in, header[:]); err != nil {
			return errors.Join(refused, fmt.Errorf("reading the answer: %w", err))
		}
		length := binary.BigEndian.Uint32(header[1:])
		if length < 4 || length > maxAnswer {
			return fmt.Errorf("reading the answer: a frame of %d bytes", length)
		}
		body := make([]byte, length-4)
		if _, err := io.ReadFull(in, body); err != nil {
			return errors.Join(refused, fmt.Errorf("reading the answer: %w", err))
		}
		switch header[0] {
		case 'D':
			row(firstValue(body))
		case 'C':
			answered = true
		case 'E':
			refused = newServerError(body)
		}
		if flushed && (answered || refused != nil) {
			return refused
		}
		if header[0] == 'Z' {
			if refused == nil && !answered {
				return errors.New("the server did not answer the query")
			}
			return refused
		}
	}
}

// firstValue returns the first value of a DataRow, or "" for NULL and for a row without values.
func firstValue(row []byte) string {
	if len(row) < 6 {
		return ""
	}
	n := int32(binary.BigEndian.Uint32(row[2:]))
	if n < 0 || int(n) > len(row)-6 {
		return ""
	}
	return string(row[6 : 6+n])
}

// serverError is an error of the server, from an ErrorResponse.
type serverError struct{ severity, message, code string }

func (e *serverError) Error() string {
	return fmt.Sprintf("%s: %s (SQLSTATE %s)", e.severity, e.message, e.code)
}

// newServerError parses the body of an ErrorResponse.
func newServerError(body []byte) *serverError {
	fields := map[byte]string{}
	for field := range strings.SplitSeq(string(body), "\x00") {
		if field != "" {
			fields[field[0]] = field[1:]
		}
	}
	return &serverError{fields['S'], fields['M'], fields['C']}
}
