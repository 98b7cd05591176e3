// Package txtime has the time of a transaction as its client has seen it, in the values of columns.
//
// A session collects the values from the answers that the client got. The session writes the time into the SQL of
// statements that would show another time: statements of a replay, and statements after a return to a savepoint. A
// value is never parsed. A value goes back to the server in the format in which it came.
package txtime

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// Time is the time (now()) of one transaction, in the forms in which the client has seen it.
type Time struct {
	// Instant is the transaction's time as a timestamptz, or empty if no column has shown it. Any other value can be
	// derived from Instant (values.DefaultAtInstant).
	Instant Value
	// Committed means that the time is that of a committed transaction of a block that Sluice runs as several. If so,
	// Sluice does not refuse a clock read in a function, view or DDL, which shows another time. It refuses an EXECUTE.
	Committed bool

	values map[Key]Value
}

// Key identifies one of the values in which the time of a transaction was shown.
type Key struct {
	Kind  string // the column's type and default (schema.Column.Time)
	Under string // the settings that the value depends on (SettingsKey)
}

// Value is a value of a column, in the text or the binary format of the protocol.
type Value struct {
	Format    uint16 // 0 text, 1 binary
	Bytes     []byte // nil for none
	IsInstant bool   // the value is a timestamptz

	contradictory bool // values contradicted each other
}

// timeSettings are the settings that a time's text depends on. The server reports all of them.
var timeSettings = []string{"timezone", "datestyle", "intervalstyle"}

// isoTime matches a time whose text a server reads alike under any DateStyle.
var isoTime = regexp.MustCompile(`^(\d{4,}-\d\d-\d\d)?([ T]?\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d(:\d\d){0,2})?)?( BC)?$`)

// SettingsKey returns the values of the settings that a time's text depends on. SettingsKey returns "" if r lacks one
// of them. In that case only the time as a timestamptz is known. r may be nil.
func SettingsKey(r *settings.Reports) string {
	if r == nil {
		return ""
	}
	var under []byte
	for _, name := range timeSettings {
		value, ok := r.Get(name)
		if !ok {
			return ""
		}
		under = append(append(under, value...), 0)
	}
	return string(under)
}

// Add adds a value in which the client has seen the time. Add ignores a text that depends on DateStyle. A value that
// contradicts another value of its key makes the key unknown.
func (t *Time) Add(key Key, v Value) {
	if key.Kind == "" || key.Under == "" || v.Bytes == nil || v.Format == 0 && !isoTime.Match(v.Bytes) {
		return
	}
	if v.IsInstant = values.IsExactTxTime(key.Kind); v.IsInstant {
		t.Instant = t.Instant.merge(v)
	}
	if t.values == nil {
		t.values = map[Key]Value{}
	}
	t.values[key] = t.values[key].merge(v)
}

// AddInstant adds the transaction's time itself, as a timestamptz.
func (t *Time) AddInstant(v Value) { t.Instant = t.Instant.merge(v) }

// merge merges two values of one time. merge prefers text, which can be written anywhere.
func (v Value) merge(w Value) Value {
	switch {
	case v.Bytes == nil && !v.contradictory:
		return w
	case v.contradictory, v.Format == w.Format && !bytes.Equal(v.Bytes, w.Bytes):
		return Value{contradictory: true}
	case v.Format == 0:
		return v
	}
	return w
}

// Knows reports whether the time is known, under some settings at least, as a value of a column of this kind.
func (t *Time) Knows(kind string) bool {
	if t.Instant.Bytes != nil {
		return true
	}
	for key, v := range t.values {
		if key.Kind == kind && v.Bytes != nil {
			return true
		}
	}
	return false
}

// ReplaceNow returns the text sql with now() replaced by the instant that write returns, or "" if nothing is replaced.
// ReplaceNow sets ok to false if write returns "".
func (t *Time) ReplaceNow(p *rewrite.Planner, sql string, ok *bool, write func(Value) string) string {
	if t.Instant.Bytes == nil {
		return ""
	}
	text := ""
	return values.ReplaceTxTime(p, sql, func() string {
		if text == "" { // once, so that an expression and its GROUP BY stay equal
			text = write(t.Instant)
			*ok = *ok && text != ""
		}
		return text
	})
}

// FixText returns sql with the time that the client has seen in place of any other, or "" if nothing changes. write
// returns a time as SQL. ok is false if a statement reads the clock in another way, or if the time cannot be written.
// own is the number of the text's first statements that belong to the transaction. Later ones have another time.
// under is the key of the current settings (SettingsKey), and names resolves the text's names.
func (t *Time) FixText(p *rewrite.Planner, sql string, own int, names *schema.NameResolver, under string, write func(Value) string) (text string, ok bool) {
	pieces := p.SplitStatements(sql)
	for i, piece := range pieces[:min(own, len(pieces))] {
		made, ok := t.fixStatement(p, piece, names, under, write)
		if !ok {
			return "", false
		}
		if made != "" {
			pieces[i], text = made, made
		}
	}
	if text != "" {
		text = strings.Join(pieces, "")
	}
	return text, true
}

// fixStatement does for one statement what FixText does for a text.
func (t *Time) fixStatement(p *rewrite.Planner, sql string, names *schema.NameResolver, under string, write func(Value) string) (text string, ok bool) {
	ok = true
	text = t.ReplaceNow(p, sql, &ok, write)
	in := values.ParseTimed(p, cmp.Or(text, sql), names)
	var survey values.Effects
	switch {
	case t.Committed:
		survey.Time = values.PlainlyReadsTxTime(p, cmp.Or(text, sql), names, in)
	case in != nil:
		survey = in.EffectsWith(values.FirstRunValues{Knows: t.Knows})
	default:
		survey = values.EffectsOf(p, cmp.Or(text, sql), names)
	}
	if ok = ok && !survey.Time; ok && in != nil {
		text = cmp.Or(in.WithFirstRun(values.FirstRunValues{Knows: t.Knows, Time: t.Writer(under, &ok, write)}), text)
	}
	return text, ok
}

// Writer returns a function that writes the value of a column of a kind, under the settings with the key under. The
// function sets ok to false if the value is unknown under these settings, or write returns "".
func (t *Time) Writer(under string, ok *bool, write func(Value) string) func(kind string) string {
	return func(kind string) (text string) {
		if v := t.values[Key{kind, under}]; v.Bytes != nil {
			if text = write(v); text != "" {
				return text
			}
		}
		if t.Instant.Bytes != nil {
			if text = write(t.Instant); text != "" {
				return values.DefaultAtInstant(kind, text)
			}
		}
		*ok = false
		return ""
	}
}

// Refusal returns the error for a statement that would show the client another time (now()) in the same transaction.
func (t *Time) Refusal() *wire.Error {
	e := &wire.Error{Code: "0A000", Message: "cannot read the clock in this transaction any more",
		Detail: "The client was told its time before it returned to a savepoint, and the server has begun it anew since.",
		Hint:   "Have the application make its times, or do not have them returned in a transaction with savepoints."}
	if t.Committed {
		e.Detail = "A part of the transaction that has read the clock is committed (" + rewrite.InTransactionsKey + "). The statement would read the time of a later part; an EXECUTE may."
		e.Hint = "Write now() or CURRENT_TIMESTAMP, and in the place of EXECUTE the statement itself, or send it behind the COMMIT."
	}
	return e
}

// Literal returns a value as an SQL constant. A binary timestamptz becomes an expression of the same microsecond. For
// other binary values Literal returns "".
func Literal(v Value) string {
	switch {
	case v.Format == 0:
		return settings.QuoteLiteral(string(v.Bytes))
	case v.IsInstant && len(v.Bytes) == 8:
		return fmt.Sprintf("('2000-01-01 00:00:00+00'::timestamptz + '%d microseconds'::interval)", int64(binary.BigEndian.Uint64(v.Bytes)))
	}
	return ""
}

// ParamWriter returns a function that adds a value to the parameters of a Bind, and returns the parameter's name.
func ParamWriter(p *wire.BindParams) func(Value) string {
	return func(v Value) string { return "$" + strconv.Itoa(p.AddValue(v.Format, v.Bytes)) }
}
