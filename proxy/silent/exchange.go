package silent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// ExchangeCheck follows the answer to a message of Sluice's own, which ends in one ReadyForQuery. ExchangeCheck checks
// that the server has answered each statement with a fitting tag, and with the right status. NewExchangeCheck returns
// an ExchangeCheck.
type ExchangeCheck struct {
	words  []string // first words of the statements to be answered
	sure   bool     // words covers all statements
	synced bool     // the message has no statement, so the status does not change
	begins bool     // a statement opens a block
	status byte     // at the end, if nothing fails; 0 means any
	next   int      // number of answered statements
	rows   int      // of the current statement
	failed bool
	odd    error // the first unexpected frame
}

// NewExchangeCheck returns the ExchangeCheck for a message, in whole frames. status is the server's transaction status
// before the message: 'I', 'T' or 'E', or 0 if unknown.
func NewExchangeCheck(message []byte, status byte) ExchangeCheck {
	x := ExchangeCheck{sure: true, status: status}
	for text := []byte(nil); len(message) >= wire.HeaderLen; {
		typ, n := message[0], 1+int(binary.BigEndian.Uint32(message[1:]))
		body := message[wire.HeaderLen:min(n, len(message))]
		switch message = message[min(n, len(message)):]; typ {
		case wire.Query:
			text, _, _ = bytes.Cut(body, []byte{0})
			x.addStatements(text)
		case wire.Parse:
			_, rest, _ := bytes.Cut(body, []byte{0})
			text, _, _ = bytes.Cut(rest, []byte{0})
		case wire.Execute: // it may follow statements of an open Sync group, so that the status may be old
			x.addStatements(text)
			x.status = 0
		}
	}
	x.synced = x.sure && len(x.words) == 0
	return x
}

// addStatements adds the statements of a Query or Execute to those that the server must answer.
func (x *ExchangeCheck) addStatements(text []byte) {
	words, sure := parse.FirstWords(text)
	x.words, x.sure = append(x.words, words...), x.sure && sure
	for _, word := range words {
		switch word {
		case "begin", "start":
			x.begins, x.status = true, 'T'
		case "commit", "end", "rollback", "abort":
			x.status = 'I'
		case "rollback to":
			x.status = 'T'
		}
	}
}

// CheckFrame processes a frame of the answer, except ReadyForQuery and frames that may arrive at any time (notices,
// parameters, notifications).
func (x *ExchangeCheck) CheckFrame(typ byte, payload []byte) {
	switch typ {
	case wire.DataRow:
		x.rows++
	case wire.ErrorResponse:
		x.failed = true
	case wire.CommandComplete:
		x.checkTag(string(bytes.TrimSuffix(payload, []byte{0})))
	case wire.EmptyQueryResponse:
		if !x.synced {
			x.recordUnexpected(errors.New("an empty answer"))
		}
	case wire.RowDescription, wire.ParseComplete, wire.BindComplete, wire.CloseComplete:
	default:
		x.recordUnexpected(fmt.Errorf("a frame of type %q that nobody has asked for", typ))
	}
}

// checkTag processes the command tag of a statement in the answer.
func (x *ExchangeCheck) checkTag(tag string) {
	switch {
	case x.failed:
		x.recordUnexpected(fmt.Errorf("tag %.64q behind an error", tag))
	case x.sure && x.next == len(x.words):
		x.recordUnexpected(fmt.Errorf("tag %.64q behind the last statement", tag))
	case x.sure && !TagFits(x.words[x.next], tag, x.rows):
		x.recordUnexpected(fmt.Errorf("tag %.64q with %d rows for %s", tag, x.rows, strings.ToUpper(x.words[x.next])))
	}
	x.next, x.rows = x.next+1, 0
}

func (x *ExchangeCheck) recordUnexpected(err error) {
	if x.odd == nil {
		x.odd = err
	}
}

// CheckEnd processes the ReadyForQuery with its status. CheckEnd returns an error if the server has not answered the
// message. An ErrorResponse is an answer.
func (x *ExchangeCheck) CheckEnd(status byte) error {
	switch {
	case x.odd != nil:
		return x.odd
	case x.synced:
		return nil
	case x.failed && (status == 'T' || x.status == 'I' && status == 'E' && !x.begins):
		return fmt.Errorf("status %q behind an error", status)
	case x.failed:
		return nil
	case x.sure && x.next < len(x.words), x.next == 0:
		return fmt.Errorf("%d of %d statements answered, without an error", x.next, len(x.words))
	case x.sure && (x.status == 'I' || x.status == 'T') && status != x.status:
		return fmt.Errorf("status %q where %q is due", status, x.status)
	}
	return nil
}

// TagFits reports whether a statement with the first word (parse.FirstWords) can have this command tag, after so many
// rows in the answer.
func TagFits(word, tag string, rows int) bool {
	if len(tag) > mostTag {
		return false
	}
	if whole, ok := wholeTags[word]; ok {
		return tag == whole
	}
	switch verb, rest, _ := strings.Cut(tag, " "); word {
	case "select", "values", "table":
		return verb == "SELECT" && isCount(rest, rows)
	case "with":
		return verb == "SELECT" && isCount(rest, rows) || verb == "INSERT" || isChangeVerb(verb) && isCount(rest, -1)
	case "insert":
		oid, count, _ := strings.Cut(rest, " ")
		return verb == "INSERT" && isCount(oid, -1) && isCount(count, -1)
	case "update", "delete", "merge":
		return verb == strings.ToUpper(word) && isCount(rest, -1)
	case "fetch":
		return verb == "FETCH" && isCount(rest, rows)
	case "create", "alter": // a table from a query, or a row with a job
		return verb == strings.ToUpper(word) || verb == "SELECT"
	case "execute":
		return tag != ""
	default:
		return verb == strings.ToUpper(word)
	}
}

// wholeTags maps the first words of statements to their tags, for tags without a number.
var wholeTags = map[string]string{"set": "SET", "reset": "RESET", "begin": "BEGIN", "start": "START TRANSACTION", "commit": "COMMIT", "end": "COMMIT",
	"rollback": "ROLLBACK", "abort": "ROLLBACK", "rollback to": "ROLLBACK", "savepoint": "SAVEPOINT", "release": "RELEASE", "show": "SHOW", "do": "DO", "call": "CALL"}

func isChangeVerb(verb string) bool { return verb == "UPDATE" || verb == "DELETE" || verb == "MERGE" }

// isCount reports whether digits are the decimal form of number, or of any number if number is -1.
func isCount(digits string, number int) bool {
	n, err := strconv.Atoi(digits)
	return err == nil && n >= 0 && strconv.Itoa(n) == digits && (number < 0 || n == number)
}
