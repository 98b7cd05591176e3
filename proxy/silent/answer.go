// Package silent takes in what a server answers to a statement that Sluice sends by itself inside a
// client's turn, and says what came of it. Of that the client is sent news only: notices,
// parameters, notifications.
//
// An Answer knows what its statement is to be answered with. Its Outcome is nil only where the
// server has said just that, to the end. Nothing is concluded from silence: an answer without a tag,
// with another one, or with two, is a failure. Where a COMMIT has no answer of its own, nobody knows
// what became of it.
//
// An Exchange does the same for a message of several statements between two turns, by their first words.
//
// What an Answer holds has a bound, whatever a server sends. News pass as they come, and are not held.
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
	// mostError bounds what is held of an error, in bytes, and mostField what is of one of its fields: the
	// fields behind a long one count too.
	mostError = 4 << 20
	mostField = 3 << 20
	// mostRows bounds the rows that are held, in bytes. The catalog's of the 1,600 columns that a table
	// may have are 250 KB.
	mostRows = 4 << 20
	// mostTag bounds a tag.
	mostTag = 64
)

// Want is the answer that a statement of Sluice's own is to have.
type Want struct {
	// tag is the tag, without the number at its end where counts says that there is one; "" where an
	// error is wanted.
	tag    string
	counts bool
	// most bounds that number; negative: it is that of the rows that have come, which are held.
	most int
	// status is that of the ReadyForQuery at the end; 0: any but that of a failed block.
	status byte
}

// Begin, Commit and Rollback are the answers to these three. Select is that to a query whose rows are
// wanted, inside of a block or outside. Refused is an error that leaves its block failed.
var (
	Begin    = Want{tag: "BEGIN", status: 'T'}
	Commit   = Want{tag: "COMMIT", status: 'I'}
	Rollback = Want{tag: "ROLLBACK", status: 'I'}
	Select   = Want{tag: "SELECT", counts: true, most: -1}
	Refused  = Want{status: 'E'}
)

// Within is the answer to a statement inside of a block whose tag is that.
func Within(tag string) Want { return Want{tag: tag, status: 'T'} }

// Insert is the answer to an INSERT of that many rows inside of a block. A trigger may keep some out.
func Insert(rows int) Want { return Want{tag: "INSERT 0", counts: true, most: rows, status: 'T'} }

// Verb is the first word of the tag; "" where an error is wanted.
func (w Want) Verb() string {
	word, _, _ := strings.Cut(w.tag, " ")
	return word
}

// Answer is one answer, as it comes. New makes one.
type Answer struct {
	want Want
	news []byte // for the client, of the last Take

	// head is the header of the frame at hand, of which heads bytes have come while it is not whole.
	// left is how many bytes of the payload are still to come.
	head  [wire.HeaderLen]byte
	heads int
	left  int

	failure []byte // the payload of the last error, as far as it is held
	errors  int
	field   int  // how many bytes of its last field are held, with the letter
	cut     bool // that field is held in part

	tag    []byte
	tags   int
	number int // at the end of the tag, once Outcome has read it
	status []byte
	readys int
	rows   []byte // whole DataRows, behind each other
	count  int
	over   bool // some are left out
	odd    bool // a frame has come that no such answer has
}

// New makes an Answer that is to be what w says.
func New(w Want) *Answer { return &Answer{want: w} }

// Take takes in what the client would be sent, in pieces of any length, and returns what it is to be
// sent all the same. That is valid until the next Take.
func (a *Answer) Take(b []byte) (news []byte) {
	a.news = a.news[:0]
	for len(b) > 0 {
		if a.left == 0 {
			n := copy(a.head[a.heads:], b)
			b = b[n:]
			if a.heads += n; a.heads < len(a.head) {
				break
			}
			a.heads, a.left = 0, max(0, int(binary.BigEndian.Uint32(a.head[1:]))-4)
			a.begin()
		}
		n := min(a.left, len(b))
		a.left -= n
		a.payload(b[:n])
		b = b[n:]
	}
	return a.news
}

// Cut drops a frame of which a part has come: its server is lost. It returns whether that was news, of
// which the client has the part.
func (a *Answer) Cut() (halved bool) {
	if a.left > 0 {
		switch a.head[0] {
		case wire.DataRow:
			a.over = true
		case wire.ErrorResponse:
			a.failure, a.errors = nil, a.errors-1
		default:
			halved = isNews(a.head[0])
		}
	}
	a.heads, a.left = 0, 0
	return halved
}

func isNews(typ byte) bool {
	return typ == wire.NoticeResponse || typ == wire.ParameterStatus || typ == wire.NotificationResponse
}

// begin is the beginning of a frame, whose header has come.
func (a *Answer) begin() {
	switch typ := a.head[0]; {
	case isNews(typ):
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

// payload is a part of the payload of the frame at hand.
func (a *Answer) payload(b []byte) {
	switch typ := a.head[0]; {
	case isNews(typ):
		a.news = append(a.news, b...)
	case typ == wire.ErrorResponse:
		a.hold(b)
	case typ == wire.CommandComplete:
		a.tag = append(a.tag, b[:min(len(b), mostTag+1-len(a.tag))]...)
	case typ == wire.ReadyForQuery:
		a.status = append(a.status, b[:min(len(b), 2-len(a.status))]...)
	case typ == wire.DataRow && !a.over:
		a.rows = append(a.rows, b...)
	}
}

// hold holds a part of an error, whose fields are a letter and a text that ends with NUL.
func (a *Answer) hold(b []byte) {
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
			a.failure = wholeCharacters(a.failure)
		}
		if a.field > 0 || !a.cut {
			a.failure = append(a.failure, 0)
		}
		a.field, a.cut = 0, false
	}
}

// wholeCharacters is b without the first part of a character at its end.
func wholeCharacters(b []byte) []byte {
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

// Failure is the payload of the last error that was told; nil where there was none.
func (a *Answer) Failure() []byte { return a.failure }

// Told is the error that was told; nil where there was none.
func (a *Answer) Told() *wire.Error {
	if a.errors == 0 {
		return nil
	}
	fields := map[byte]string{}
	for b := a.failure; len(b) > 1 && b[0] != 0; {
		text, rest, ok := wire.CString(b[1:])
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
	if len(told.Code) != 5 { // no server of PostgreSQL's kind says so
		told.Code = "XX000"
	}
	return told
}

// Outcome is the error with which the statement has ended; nil where the answer is the wanted one.
func (a *Answer) Outcome() *wire.Error {
	told, as := a.Told(), a.asWanted()
	switch {
	case told != nil && a.want.tag == "" && string(a.status) == string(rune(a.want.status)):
		return nil
	case told != nil && !(a.want == Commit && a.tags > 0):
		return told
	case told == nil && as:
		return nil
	case a.want == Commit && told == nil && a.tags == 1 && string(a.tag) == "ROLLBACK\x00" && string(a.status) == "I":
		return errRolledBack
	case a.want == Commit:
		return errUnknown
	case a.over && a.want.most < 0:
		return errTooMuch
	}
	return &wire.Error{Code: "08P01", Message: "the server did not answer " + a.Asked() + " as such",
		Detail: "Sluice sent it inside of the statement, and does not go on without its answer. It said: " + a.Said() + "."}
}

// asWanted reports whether the answer is the wanted one, but for errors.
func (a *Answer) asWanted() bool {
	tag, whole := strings.CutSuffix(string(a.tag), "\x00")
	w := &a.want
	switch {
	case !a.ended() || a.tags != 1 || !whole || w.tag == "":
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

// ended reports whether the answer has come to its end, with the wanted status, and without a frame that no such
// answer has.
func (a *Answer) ended() bool {
	if a.odd || a.readys != 1 || len(a.status) != 1 || a.heads != 0 || a.left != 0 {
		return false
	}
	s := a.status[0]
	return s == a.want.status || a.want.status == 0 && (s == 'I' || s == 'T')
}

// Number is the number at the end of the tag, where Outcome has found the wanted one.
func (a *Answer) Number() int { return a.number }

// Rows goes through the payloads of the rows.
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

// Asked is the first word of what was asked, for people.
func (a *Answer) Asked() string { return a.want.Verb() }

// Said is what the server has said in the place of the wanted answer, for people: its tag.
func (a *Answer) Said() string {
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
