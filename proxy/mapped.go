package proxy

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Errors of the server about texts that the client did not write as the server got them:
// positions are mapped back, hints added, and errors of Sluice's own put in their place.
// understand asks mappedError for each ErrorResponse.

// mappedError is what the client is told in the place of a server's error about
// a text that was rewritten, or nil to pass it as it is. hint is one to give; ""
// gives the statement's. at is where its session stood in front of the statement.
func (s *session) mappedError(o *owed, made *answer.Error, frame []byte, hint string, at *block.Block) []byte {
	if made.Instead != nil {
		return made.Instead
	}
	plan, split := o.sent()
	if plan == nil {
		return nil
	}
	st := s.statementOf(o, plan)
	if told := deniedForm(st, frame[wire.HeaderLen:], at); told != nil {
		return told.Append(nil)
	}
	if st != nil && st.Refusal != nil {
		return refusalOf(st).Append(nil)
	}
	payload := frame[wire.HeaderLen:]
	if told := retagRefused(st, payload); told != nil {
		return told.Append(nil)
	}
	if hint == "" {
		hint = s.hintOf(o, plan, st, payload)
	}
	if retry.Field(payload, 'H') != nil && hint != hintHexCast && hint != hintNoBytea && !isUnknownFunction(payload) {
		hint = ""
	}
	moved := retry.Field(payload, 'P') != nil && (plan.Text != "" || split != nil || o.shift > 0)
	dress := s.srv.dresserOf(plan, payload)
	if !moved && hint == "" && !dress.on {
		return nil
	}
	return o.retold(payload, moved, hint, dress)
}

// hintOf is the hint for an error of the server's about a text of that plan; "" where there
// is none. st is the statement that it is about; nil where nobody knows.
func (s *session) hintOf(o *owed, plan *rewrite.Plan, st *rewrite.Statement, payload []byte) string {
	code := string(retry.Field(payload, 'C'))
	if code == retry.StateUnsupported && s.srv.cfg.Kind == DSQL && ofTransaction(retry.Field(payload, 'M')) {
		if s.commitsParts() {
			return plan.WholeHint()
		}
		return rewrite.InTransactionsHint
	}
	if st != nil && (code == "0A000" || code == "42704") {
		return st.Hint
	}
	if plan.Mapped && code == unknownFunction {
		if hint := hintOfConversion(retry.Field(payload, 'M')); hint != "" {
			return hint
		}
	}
	if plan.Mapped && unknownName(payload) && bytes.Contains(retry.Field(payload, 'M'), []byte(schema.MappedSuffix)) {
		return hintSchemaChanged
	}
	if s.srv.cfg.Kind != DSQL {
		return ""
	}
	if code == unknownFunction {
		return rewrite.MissingFunction(string(retry.Field(payload, 'M')))
	}
	return cmp.Or(hintOfTruncate(plan, st, payload), s.hintOfRows(o, plan, st, payload), answer.LimitHint(payload))
}

// ofTransaction reports whether a server's refusal is about DDL beside other statements: what
// DSQL says of two, and of DDL and rows.
func ofTransaction(message []byte) bool {
	return bytes.HasPrefix(message, []byte("multiple ddl statements")) || bytes.HasPrefix(message, []byte("ddl and dml"))
}

// unknownFunction is the SQLSTATE of a function that is not there. The server's own hint to it
// is about types, and says less than one that knows the function.
const unknownFunction = "42883"

// isUnknownFunction reports whether an error of the server says that it lacks a function.
func isUnknownFunction(payload []byte) bool {
	return string(retry.Field(payload, 'C')) == unknownFunction
}

// retold is an error with the position mapped, where moved says so, with names and values as
// dress has them, and hint in the place of the server's, unless it is ""; nil for one that
// cannot be read. A position that the client's text has nothing of is left out. All other
// fields stay as they are.
func (o *owed) retold(payload []byte, moved bool, hint string, dress dresser) []byte {
	out := appendFields(nil, payload, func(code byte, value []byte) ([]byte, bool) {
		if code == 'H' && hint != "" {
			return nil, false
		}
		n, err := strconv.Atoi(string(value))
		if code != 'P' || !moved || err != nil {
			return dress.field(code, value), true
		}
		n, ok := o.position(n)
		return strconv.AppendInt(nil, int64(n), 10), ok
	})
	if out == nil {
		return nil
	}
	if hint != "" {
		out = append(append(append(out, 'H'), hint...), 0)
	}
	out = append(out, 0)
	return append(wire.AppendHeader(nil, wire.ErrorResponse, len(out)), out...)
}

// position maps a position in what was sent to the client's text; ok is false where the
// client's text has nothing of it. Positions count characters from 1. They pass through two
// texts at most: the query of two parts, and the rewritten text.
func (o *owed) position(n int) (mapped int, ok bool) {
	plan, split := o.sent()
	switch {
	case split == nil:
	case o.kind == wire.Query:
		if n, ok = split.TextPosition(n); !ok {
			return 0, false
		}
	case o.ofCompanion():
		return 0, false
	default:
		n = split.Position(n)
	}
	n = plan.Position(n)
	return n + o.shift, !plan.OfOurs(n)
}
