package copyin_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/copyin"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

var _ feature.Session = (*fake)(nil)

// fake is a session whose client sends in, and whose server answers as fails says.
type fake struct {
	in []byte // frames of the client
	// piece is the most that Payload gives at once; 0: all.
	piece int
	// columns are the columns of the table, each as the catalog has it: kind of the table, whether it has rules,
	// name, OID of the type, whether it is generated, whether it is an identity that is ALWAYS generated.
	columns [][]string

	block, preceded, readOnly, optsOut bool
	settings                           map[string]string
	// room is what Hold allows; 0: all.
	room int
	// fails returns the error of a statement of the server, nil for none, and its position in the text; 0
	// is none.
	fails func(sql string) (e *wire.Error, position int)
	// stops returns what stops the statement in front of the next unit of work.
	stops func() error

	inTx      bool
	ran       []string // statements of the server, without the look at the table
	replies   [][]byte
	held      int // most bytes
	pauses    int
	committed int
	finished  bool
	discarded int
	protocol  *wire.Error
}

func (f *fake) InBlock() bool                        { return f.block || f.inTx }
func (f *fake) IsFirstStatement() bool               { return !f.preceded }
func (f *fake) OptsOut([]byte) bool                  { return f.optsOut }
func (f *fake) Setting(name string) string           { return f.settings[name] }
func (f *fake) Reading() rewrite.ReadingMode         { return 0 }
func (f *fake) Names() (*schema.NameResolver, error) { return nil, nil }
func (f *fake) RefusesWrite(*rewrite.Statement) *wire.Error {
	if f.readOnly {
		return &wire.Error{Code: "25006"}
	}
	return nil
}

func (f *fake) Reply(frames ...[]byte) error {
	f.replies = append(f.replies, frames...)
	return nil
}
func (f *fake) Flush() error { return nil }

func (f *fake) NextFrame() (typ byte, total int, err error) {
	if len(f.in) == 0 {
		return 0, 0, feature.ErrTerminated
	}
	return f.in[0], 1 + int(binary.BigEndian.Uint32(f.in[1:])), nil
}

func (f *fake) ReadWhole(total int) ([]byte, error) {
	frame := f.in[:total]
	f.in = f.in[total:]
	return frame, nil
}

func (f *fake) ReadPayload(total int, take func([]byte) error) error {
	frame, _ := f.ReadWhole(total)
	for rest := frame[wire.HeaderLen:]; len(rest) > 0; {
		n := len(rest)
		if f.piece > 0 {
			n = min(n, f.piece)
		}
		if err := take(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (f *fake) Discard(n int) error {
	f.in = f.in[n:]
	f.discarded += n
	return nil
}

func (f *fake) ProtocolError(e *wire.Error) error {
	f.protocol = e
	return feature.ErrTerminated
}

func (f *fake) ChargeMemory(bytes int) error {
	if f.room > 0 && bytes > f.room {
		return &wire.Error{Code: "53200"}
	}
	f.held = max(f.held, bytes)
	return nil
}

func (f *fake) RunNested(sql string, how feature.NestedOptions) (feature.NestedResult, error) {
	answer := silent.NewAnswer(how.Want)
	if how.Want == silent.ExpectSelect {
		for _, c := range f.columns {
			answer.Feed(row(c...))
		}
		answer.Feed(append(wire.AppendCommandComplete(nil, fmt.Sprintf("SELECT %d", len(f.columns))), wire.AppendReadyForQuery(nil, f.status())...))
		return feature.NestedResult{Err: answer.CheckOutcome(), Answer: answer}, nil
	}
	f.ran = append(f.ran, sql)
	if e, position := f.failure(sql); e != nil {
		if sql == "COMMIT" {
			f.inTx = false
		}
		answer.Feed(append(errorFrame(e, position), wire.AppendReadyForQuery(nil, f.failedStatus())...))
		return feature.NestedResult{Failed: true, Err: answer.CheckOutcome(), Answer: answer}, nil
	}
	verb, _, _ := strings.Cut(sql, " ")
	tag := verb
	switch verb {
	case "BEGIN":
		f.inTx = true
	case "COMMIT", "ROLLBACK":
		f.inTx = false
	case "INSERT":
		tag = fmt.Sprintf("INSERT 0 %d", rows(sql))
	}
	answer.Feed(append(wire.AppendCommandComplete(nil, tag), wire.AppendReadyForQuery(nil, f.status())...))
	return feature.NestedResult{Err: answer.CheckOutcome(), Answer: answer}, nil
}

func (f *fake) RunTxCommand(sql string, want silent.ExpectedAnswer) (feature.NestedResult, error) {
	return f.RunNested(sql, feature.NestedOptions{Want: want, Outside: true})
}

func (f *fake) failure(sql string) (*wire.Error, int) {
	if f.fails == nil {
		return nil, 0
	}
	return f.fails(sql)
}

// errorFrame is the ErrorResponse of an error with a position.
func errorFrame(e *wire.Error, position int) []byte {
	frame := e.Append(nil)
	if position == 0 {
		return frame
	}
	payload := append(frame[wire.HeaderLen:len(frame)-1], fmt.Sprintf("P%d\x00\x00", position)...)
	return append(wire.AppendHeader(nil, wire.ErrorResponse, len(payload)), payload...)
}

func (f *fake) status() byte {
	if f.InBlock() {
		return 'T'
	}
	return 'I'
}

func (f *fake) failedStatus() byte {
	if f.InBlock() {
		return 'E'
	}
	return 'I'
}

func (f *fake) BeginStatement() {}
func (f *fake) EndStatement()   { f.finished = true }
func (f *fake) CheckMayContinue() error {
	if f.stops != nil {
		return f.stops()
	}
	return nil
}

func (f *fake) Pause(time.Duration) error {
	f.pauses++
	return nil
}

// row is a DataRow.
func row(values ...string) []byte {
	payload := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for _, v := range values {
		payload = append(binary.BigEndian.AppendUint32(payload, uint32(len(v))), v...)
	}
	return append(wire.AppendHeader(nil, wire.DataRow, len(payload)), payload...)
}

// rows is the number of rows of an INSERT of numbers and words.
func rows(sql string) int { return strings.Count(sql, "(") - 1 }

// data is a CopyData.
func data(text string) []byte {
	return append(wire.AppendHeader(nil, wire.CopyData, len(text)), text...)
}

func done() []byte { return wire.AppendHeader(nil, wire.CopyDone, 0) }

// numbers are n rows, of the columns a and b.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d\tx\n", i+1)
	}
	return b.String()
}

// table is a session with the table of these rows, whose client sends frames.
func table(frames ...[]byte) *fake {
	f := &fake{columns: [][]string{{"r", "f", "a", "23", "f", "f"}, {"r", "f", "b", "25", "f", "f"}}}
	for _, frame := range frames {
		f.in = append(f.in, frame...)
	}
	return f
}

// statement is COPY t FROM STDIN.
func statement() *rewrite.Statement {
	return &rewrite.Statement{CopyIn: &rewrite.CopyIn{Table: `"t"`, Name: "t", Delimiter: '\t', Null: `\N`}}
}

// config is the configuration of the tests; committed counts batches.
func config(committed *int) copyin.Config {
	policy := retry.Defaults().Policy
	return copyin.Config{MaxStatementBytes: 1 << 20, Retry: &policy, Committed: func() { *committed++ }}
}

// run runs a COPY, and returns its tag and the error for the client.
func (f *fake) run(t *testing.T, st *rewrite.Statement) (tag string, e *wire.Error) {
	t.Helper()
	err := copyin.Run(f, st, []byte("COPY"), config(&f.committed))
	e, _ = err.(*wire.Error)
	if err != nil && e == nil {
		t.Errorf("%v", err)
	}
	if f.inTx {
		t.Error("a transaction is left open")
	}
	for _, frame := range f.replies {
		if frame[0] == wire.CommandComplete {
			tag = strings.TrimRight(string(frame[wire.HeaderLen:]), "\x00")
		}
	}
	return tag, e
}
