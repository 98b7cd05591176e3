package recorded

import (
	"bytes"
	"strconv"
	"unsafe"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// maxAnswer limits the stored answer of one statement in bytes. A row takes some bytes, and answers of more than a
// thousand rows are rare.
const maxAnswer = 64 << 10

// maxFirstRow limits, in bytes, the first row of an answer, in which Sluice looks for the transaction's time.
const maxFirstRow = 1 << 10

// Answer stores the DataRow frames that answer an INSERT ... RETURNING in a block. For other statements that return
// the transaction's time (now(), say) it stores the first row. The replay log's entry of the Query or Bind shares the
// Answer with the pending reply. Only the first attempt whose answer the client gets fills the Answer.
type Answer struct {
	rows []byte
	// reports are the server's parameters (ParameterStatus) at the end of the recorded answer.
	reports *settings.Reports
	// Whole is set if the whole answer is recorded. unusable is set if a replay cannot use the answer.
	Whole, unusable bool
	// First is set if only the first row of the answer is stored. The answer's Whole is then false.
	First bool
	// several is the number of statements in a multi-statement query, or 0 for a single statement. answers has the answers
	// of the statements that have ended. nextOffset is the offset in rows where the next answer begins.
	several    int
	answers    []Answer
	nextOffset int
}

// New returns an Answer for one statement, or nil if none is needed. inserts is the result of
// parse.IsInsertReturning for the statement, and tells the result of values.MayReturnTxTime.
func New(inserts, tells bool) *Answer {
	if inserts || tells {
		return &Answer{First: !inserts}
	}
	return nil
}

// NewSeveral returns an Answer for a query of several statements. Its memory is statements times Cost, without rows.
func NewSeveral(statements int) *Answer { return &Answer{several: statements} }

// Cost is how many bytes one statement's answer takes, without its rows.
const Cost = int(unsafe.Sizeof(Answer{}))

// Statement returns the recorded answer to statement i (from 0) of a query with so many statements, or nil for none.
func (k *Answer) Statement(i, statements int) *Answer {
	switch {
	case k == nil || k.unusable:
		return nil
	case k.several == 0 && statements == 1:
		return k
	case k.several == statements && len(k.answers) == statements:
		return &k.answers[i]
	}
	return nil
}

// Discard makes the recorded answer unusable for a replay.
func (k *Answer) Discard() { k.unusable = true }

// A Reserver reserves n bytes of a limit for recorded rows. ReserveBytes returns false if the limit has no room.
type Reserver interface{ ReserveBytes(n int) bool }

// AddRows records span, the next bytes of the answer's rows (any number), before the client gets them. If the rows
// are too long, or the replay log has no room, the answer becomes unusable.
func (k *Answer) AddRows(log Reserver, span []byte) {
	if k.unusable || len(span) == 0 || k.First && k.HasFirstRow() {
		return
	}
	if k.First {
		span = span[:min(len(span), maxFirstRow-len(k.rows))]
	}
	if len(k.rows)+len(span) > maxAnswer || !log.ReserveBytes(len(span)) {
		k.rows, k.unusable = nil, true
		return
	}
	if k.rows = append(k.rows, span...); k.First && !k.HasFirstRow() && len(k.rows) == maxFirstRow {
		k.rows, k.unusable = nil, true
	}
}

// HasFirstRow reports whether the whole first row of the answer is stored.
func (k *Answer) HasFirstRow() bool { return len(wire.FirstRow(k.rows)) > 0 }

// End records the last frame of an answer. The answer is usable only if the tag's row count matches the stored rows.
// An answer of a suspended portal is not usable. In a multi-statement query, each statement gets its own End.
func (k *Answer) End(typ byte, frame []byte, reports *settings.Reports) {
	if k.several > 0 {
		if k.unusable = k.unusable || typ != wire.CommandComplete; k.unusable {
			return
		}
		one := Answer{rows: k.rows[k.nextOffset:len(k.rows):len(k.rows)]}
		// If the answer is not that of an INSERT ... RETURNING, its first row may contain the transaction's time.
		if one.End(typ, frame, reports); !one.Whole {
			one.First, one.unusable = true, false
		}
		k.answers, k.nextOffset = append(k.answers, one), len(k.rows)
		k.Whole = len(k.answers) == k.several
		return
	}
	if k.First {
		k.reports = reports
		return
	}
	tag, _ := bytes.CutSuffix(frame[wire.HeaderLen:], []byte{0})
	k.unusable = k.unusable || k.Whole || typ != wire.CommandComplete ||
		string(tag) != "INSERT 0 "+strconv.Itoa(wire.CountRows(k.rows))
	k.Whole, k.reports = !k.unusable, reports
}

// Reset clears the recorded answer, before Sluice sends the statement again unchanged. k may be nil.
func (k *Answer) Reset() {
	if k != nil {
		*k = Answer{First: k.First, several: k.several}
	}
}

// AddTimes adds the transaction's time to the Time that of points to, if the answer to the statement sql shows it. It
// reports whether the answer does. under has the names with which Sluice planned the statement. now is the latest
// schema. formats returns the result format (0 text, 1 binary) of a column.
func (k *Answer) AddTimes(of *txtime.Time, p *rewrite.Planner, sql string, under *schema.NameResolver, now *schema.Schema, formats func(column int) uint16) (tells bool) {
	key := txtime.SettingsKey(k.reports)
	tells = k.addFirstRowTime(of, p, sql, formats)
	if !k.Whole {
		return tells
	}
	in := values.ParseInsertion(p, sql, under.ForSnapshot(now))
	if in == nil || in.Width == 0 || !in.ResolvesSame(under) { // the column had another default
		return tells
	}
	rows := wire.SplitRows(k.rows, in.Width)
	if len(rows) != in.Rows {
		return tells
	}
	in.EachTxTime(func(kind string, c values.AnswerCell) {
		tells = true
		of.Add(txtime.Key{Kind: kind, Under: key}, txtime.Value{Format: formats(c.Column), Bytes: rows[c.Row][c.Column]})
	})
	return tells
}

// addFirstRowTime adds the transaction's time to *of and returns true, if the answer's first row shows the time.
func (k *Answer) addFirstRowTime(of *txtime.Time, p *rewrite.Planner, sql string, formats func(column int) uint16) (tells bool) {
	row := wire.FirstRow(k.rows)
	if row == nil || !k.First && !k.Whole {
		return false
	}
	cells := wire.SplitRows(row, wire.ColumnCount(row))
	for _, column := range values.TxTimeColumns(p, sql) {
		if len(cells) == 1 && column < len(cells[0]) && cells[0][column] != nil {
			of.Add(txtime.Key{Kind: values.ExactTxTimeKind, Under: txtime.SettingsKey(k.reports)}, txtime.Value{Format: formats(column), Bytes: cells[0][column]})
			tells = true
		}
	}
	return tells
}
