// Package silent reads the server's answer to a statement that Sluice itself sends within a client's turn. Of this
// answer the client gets only notices, parameters and notifications.
//
// An Answer knows the answer that is expected to its statement. Answer.CheckOutcome is nil only if the server has sent
// exactly the expected answer, to the end. An answer without a tag, with another tag, or with two tags is a failure.
// Without an answer to a COMMIT the outcome is unknown.
//
// An ExchangeCheck does the same for a message of several statements between two turns, by the first words of the
// statements.
//
// An Answer stores a bounded number of bytes, whatever a server sends. Frames for the client are passed on at once and
// not stored.
package silent

import (
	"bytes"
	"encoding/binary"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

const (
	// mostError bounds the stored bytes of an error. mostField bounds the stored bytes of one field of the error, so
	// that fields after a long one are stored too.
	mostError = 4 << 20
	mostField = 3 << 20
	// mostRows bounds the stored bytes of rows. The catalog's rows for a table with 1,600 columns, the maximum, have 250
	// KB.
	mostRows = 4 << 20
	// mostTag bounds the stored bytes of a command tag.
	mostTag = 64
)

// ExpectedAnswer is the answer that is expected to one of Sluice's own statements.
type ExpectedAnswer struct {
	// tag is the expected command tag, without the number at its end if counts is set. tag is "" if an error is expected.
	tag    string
	counts bool
	// most is the greatest number that the tag may have. If most is negative, the tag must have the number of the rows,
	// which are stored.
	most int
	// status is the expected status of the ReadyForQuery. 0 means any status except that of a failed block.
	status byte
}

// ExpectBegin, ExpectCommit and ExpectRollback are the expected answers to BEGIN, COMMIT and ROLLBACK. ExpectSelect
// is the expected answer to a query whose rows are needed, within a block or outside. ExpectFailure is an error that
// leaves its block failed.
var (
	ExpectBegin    = ExpectedAnswer{tag: "BEGIN", status: 'T'}
	ExpectCommit   = ExpectedAnswer{tag: "COMMIT", status: 'I'}
	ExpectRollback = ExpectedAnswer{tag: "ROLLBACK", status: 'I'}
	ExpectSelect   = ExpectedAnswer{tag: "SELECT", counts: true, most: -1}
	ExpectFailure  = ExpectedAnswer{status: 'E'}
)

// ExpectInBlock returns the expected answer to a statement with a tag, within a block.
func ExpectInBlock(tag string) ExpectedAnswer { return ExpectedAnswer{tag: tag, status: 'T'} }

// ExpectInsert returns the expected answer to an INSERT of rows within a block. A trigger may omit some rows.
func ExpectInsert(rows int) ExpectedAnswer {
	return ExpectedAnswer{tag: "INSERT 0", counts: true, most: rows, status: 'T'}
}

// FirstWord returns the first word of the expected tag, or "" if an error is expected.
func (w ExpectedAnswer) FirstWord() string {
	word, _, _ := strings.Cut(w.tag, " ")
	return word
}

// Answer reads the server's answer to one statement of Sluice's own, as it arrives. NewAnswer returns an Answer.
type Answer struct {
	want ExpectedAnswer
	news []byte // for the client, from the last Feed

	// head is the header of the current frame. While the header is incomplete, heads is the number of its bytes that have
	// arrived. left is the number of payload bytes that are missing.
	head  [wire.HeaderLen]byte
	heads int
	left  int

	failure []byte // payload of the last error, as far as it is stored
	errors  int
	field   int  // stored bytes of its last field, with the letter
	cut     bool // that field is truncated

	tag    []byte
	tags   int
	number int // at the end of the tag, set by CheckOutcome
	status []byte
	readys int
	rows   []byte // whole DataRows, concatenated
	count  int
	over   bool // some rows are missing
	odd    bool // an unexpected type of frame has arrived
}

// NewAnswer returns an Answer that expects the answer w.
func NewAnswer(w ExpectedAnswer) *Answer { return &Answer{want: w} }

// Feed reads a piece of the answer, of any length, and returns the part that the client should get. The returned bytes
// are valid until the next Feed.
func (a *Answer) Feed(b []byte) (news []byte) {
	a.news = a.news[:0]
	for len(b) > 0 {
		if a.left == 0 {
			n := copy(a.head[a.heads:], b)
			b = b[n:]
			if a.heads += n; a.heads < len(a.head) {
				break
			}
			a.heads, a.left = 0, max(0, int(binary.BigEndian.Uint32(a.head[1:]))-4)
			a.beginFrame()
		}
		n := min(a.left, len(b))
		a.left -= n
		a.addPayload(b[:n])
		b = b[n:]
	}
	return a.news
}

// DropIncomplete drops an incomplete frame after the loss of the backend. halved reports whether the client has got a
// part of that frame.
func (a *Answer) DropIncomplete() (halved bool) {
	if a.left > 0 {
		switch a.head[0] {
		case wire.DataRow:
			a.over = true
		case wire.ErrorResponse:
			a.failure, a.errors = nil, a.errors-1
		default:
			halved = isAsync(a.head[0])
		}
	}
	a.heads, a.left = 0, 0
	return halved
}

func isAsync(typ byte) bool {
	return typ == wire.NoticeResponse || typ == wire.ParameterStatus || typ == wire.NotificationResponse
}

// beginFrame processes the header of a frame of the answer.
func (a *Answer) beginFrame() {
	switch typ := a.head[0]; {
	case isAsync(typ):
		a.news = append(a.news, a.head[:]...)
	case typ == wire.ErrorResponse:
		a.failure, a.field, a.cut = nil, 0, false
		a.errors++
	case typ == wire.CommandComplete:
		a.tag = a.tag[:0]
		a.tags++
	case typ == wire.ReadyForQuery:
		a.status = a.status[:0]
		a.readys++
	case typ == wire.DataRow:
		a.count++
		if a.over = a.over || a.want.most >= 0 || len(a.rows)+len(a.head)+a.left > mostRows; !a.over {
			a.rows = append(a.rows, a.head[:]...)
		}
	case typ != wire.RowDescription:
		a.odd = true
	}
}

// addPayload processes a piece of the current frame's payload.
func (a *Answer) addPayload(b []byte) {
	switch typ := a.head[0]; {
	case isAsync(typ):
		a.news = append(a.news, b...)
	case typ == wire.ErrorResponse:
		a.addErrorPiece(b)
	case typ == wire.CommandComplete:
		a.tag = append(a.tag, b[:min(len(b), mostTag+1-len(a.tag))]...)
	case typ == wire.ReadyForQuery:
		a.status = append(a.status, b[:min(len(b), 2-len(a.status))]...)
	case typ == wire.DataRow && !a.over:
		a.rows = append(a.rows, b...)
	}
}

// addErrorPiece stores a piece of an error's payload. Each field of the error is a letter and a text that ends with
// NUL.
func (a *Answer) addErrorPiece(b []byte) {
	for len(b) > 0 {
		n := bytes.IndexByte(b, 0)
		ends := n >= 0
		if !ends {
			n = len(b)
		}
		room := max(0, min(n, mostField-a.field, mostError-2-len(a.failure)))
		a.failure = append(a.failure, b[:room]...)
		a.field += room
		a.cut = a.cut || room < n
		if b = b[n:]; !ends {
			return
		}
		if b = b[1:]; a.cut {
			a.failure = trimPartialRune(a.failure)
		}
		if a.field > 0 || !a.cut {
			a.failure = append(a.failure, 0)
		}
		a.field, a.cut = 0, false
	}
}

// trimPartialRune returns b without an incomplete UTF-8 character at its end.
func trimPartialRune(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// ErrorPayload returns the payload of the last error in the answer, or nil for none.
func (a *Answer) ErrorPayload() []byte { return a.failure }

// LastError returns the last error in the answer, or nil for none.
func (a *Answer) LastError() *wire.Error {
	if a.errors == 0 {
		return nil
	}
	fields := map[byte]string{}
	for b := a.failure; len(b) > 1 && b[0] != 0; {
		text, rest, ok := wire.CutCString(b[1:])
		if !ok {
			break
		}
		if _, twice := fields[b[0]]; !twice {
			fields[b[0]] = string(text)
		}
		b = rest
	}
	told := &wire.Error{Code: fields['C'], Message: fields['M'], Detail: fields['D'], Hint: fields['H'],
		Schema: fields['s'], Table: fields['t'], Column: fields['c'], Constraint: fields['n']}
	if len(told.Code) != 5 { // no PostgreSQL server sends another length
		told.Code = "XX000"
	}
	return told
}

// CheckOutcome returns the error of the statement, or nil if the answer is as expected.
func (a *Answer) CheckOutcome() *wire.Error {
	told, as := a.LastError(), a.isAsExpected()
	switch {
	case told != nil && a.want.tag == "" && string(a.status) == string(rune(a.want.status)):
		return nil
	case told != nil && !(a.want == ExpectCommit && a.tags > 0):
		return told
	case told == nil && as:
		return nil
	case a.want == ExpectCommit && told == nil && a.tags == 1 && string(a.tag) == "ROLLBACK\x00" && string(a.status) == "I":
		return errRolledBack
	case a.want == ExpectCommit:
		return errUnknown
	case a.over && a.want.most < 0:
		return errTooMuch
	}
	return &wire.Error{Code: "08P01", Message: "the server did not answer " + a.ExpectedWord() + " as such",
		Detail: "Sluice sent it inside of the statement, and does not go on without its answer. It said: " + a.DescribeActual() + "."}
}

// isAsExpected reports whether the answer is as expected, apart from errors.
func (a *Answer) isAsExpected() bool {
	tag, whole := strings.CutSuffix(string(a.tag), "\x00")
	w := &a.want
	switch {
	case !a.isComplete() || a.tags != 1 || !whole || w.tag == "":
		return false
	case !w.counts:
		return tag == w.tag && a.count == 0
	}
	digits, ok := strings.CutPrefix(tag, w.tag+" ")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || strconv.Itoa(n) != digits || n < 0 {
		return false
	}
	a.number = n
	if w.most < 0 {
		return n == a.count && !a.over
	}
	return n <= w.most && a.count == 0
}

// isComplete reports whether the answer is complete, with the expected status and without an unexpected frame.
func (a *Answer) isComplete() bool {
	if a.odd || a.readys != 1 || len(a.status) != 1 || a.heads != 0 || a.left != 0 {
		return false
	}
	s := a.status[0]
	return s == a.want.status || a.want.status == 0 && (s == 'I' || s == 'T')
}

// TagNumber returns the number at the end of the tag, after CheckOutcome has found the tag to be as expected.
func (a *Answer) TagNumber() int { return a.number }

// Rows iterates over the payloads of the rows in the answer.
func (a *Answer) Rows() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for b := a.rows; len(b) >= wire.HeaderLen; {
			n := 1 + int(binary.BigEndian.Uint32(b[1:]))
			if n > len(b) || !yield(b[wire.HeaderLen:n]) {
				return
			}
			b = b[n:]
		}
	}
}

// RowValues returns the values of a row's payload, with "" for NULL. RowValues returns nil if the row is malformed.
func RowValues(row []byte) []string {
	if len(row) < 2 {
		return nil
	}
	var out []string
	n := int(binary.BigEndian.Uint16(row))
	for row = row[2:]; n > 0 && len(row) >= 4; n-- {
		size := int(int32(binary.BigEndian.Uint32(row)))
		row = row[4:]
		if size > len(row) {
			return nil
		}
		out = append(out, string(row[:max(size, 0)]))
		row = row[max(size, 0):]
	}
	return out
}

// ExpectedWord returns the first word of the statement, for messages about its answer.
func (a *Answer) ExpectedWord() string { return a.want.FirstWord() }

// DescribeActual returns the server's actual answer, its tag and status, for messages.
func (a *Answer) DescribeActual() string {
	switch tag := strings.TrimSuffix(string(a.tag), "\x00"); {
	case a.tags == 0:
		return "nothing"
	case a.tags > 1:
		return strconv.Itoa(a.tags) + " tags"
	case len(tag) > mostTag:
		return "a tag that is too long"
	default:
		return strconv.QuoteToASCII(tag) + ", status " + strconv.QuoteToASCII(string(a.status))
	}
}

var (
	errRolledBack = &wire.Error{Code: "40000", Message: "the server has rolled the transaction back",
		Detail: "It answered ROLLBACK to COMMIT: nothing of the transaction was applied."}
	errUnknown = &wire.Error{Code: "08007", Message: "the server did not answer a COMMIT as such: its outcome is unknown",
		Hint: "Look whether the change is there before running it again."}
	errTooMuch = &wire.Error{Code: "54000", Message: "the server's answer to a question of Sluice's own is too long"}
)
