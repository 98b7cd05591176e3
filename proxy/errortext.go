package proxy

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/batch"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/mappederror"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// This file changes the server's errors about queries that Sluice has rewritten. clientErrorFor maps positions to the
// client's text, adds hints, and replaces some errors.

// clientErrorFor returns the error that the client gets instead of the server's, or nil if the client gets the
// server's. hint is added; "" means the statement's hint. at is the state of the block before the statement ran.
func (s *session) clientErrorFor(o *pendingReply, made *answer.ErrorHandling, frame []byte, hint string, at *block.Block) []byte {
	if made.Instead != nil {
		return made.Instead
	}
	plan, split := o.sentPlan()
	if plan == nil {
		return nil
	}
	st := s.t.answeredStatement(o, plan)
	if told := access.FormError(st, frame[wire.HeaderLen:], at); told != nil {
		return told.Append(nil)
	}
	if st != nil && st.Refusal != nil {
		return sqlerror.StatementRefused(st).Append(nil)
	}
	payload := frame[wire.HeaderLen:]
	if told := retaggedError(st, payload); told != nil {
		return told.Append(nil)
	}
	if hint == "" {
		hint = s.hintForError(o, plan, st, payload)
	}
	if retry.ErrorField(payload, 'H') != nil && hint != mappederror.HintHexCast && hint != mappederror.HintNoBytea && string(retry.ErrorField(payload, 'C')) != unknownFunction {
		hint = ""
	}
	moved := retry.ErrorField(payload, 'P') != nil && (plan.Text != "" || split != nil || o.shift > 0)
	dress := s.srv.errorRenamerFor(plan, payload)
	if !moved && hint == "" && !dress.On {
		return nil
	}
	return o.rewriteErrorFields(payload, moved, hint, dress)
}

// hintForError returns the hint for a server's error about a query with the given plan, or "". st is the statement that
// failed, or nil if unknown.
func (s *session) hintForError(o *pendingReply, plan *rewrite.Plan, st *rewrite.Statement, payload []byte) string {
	code := string(retry.ErrorField(payload, 'C'))
	if code == retry.StateUnsupported && s.srv.cfg.Kind == DSQL && isMixedDDLRefusal(retry.ErrorField(payload, 'M')) {
		if s.parts.IsOn() {
			return plan.SingleTxHint()
		}
		return rewrite.InTransactionsHint
	}
	if st != nil && (code == "0A000" || code == "42704") {
		return st.Hint
	}
	if plan.Mapped && code == unknownFunction {
		if hint := mappederror.ConversionHint(retry.ErrorField(payload, 'M')); hint != "" {
			return hint
		}
	}
	if plan.Mapped && isUnknownName(payload) && bytes.Contains(retry.ErrorField(payload, 'M'), []byte(schema.MappedSuffix)) {
		return hintSchemaChanged
	}
	if s.srv.cfg.Kind != DSQL {
		return ""
	}
	if code == unknownFunction {
		return rewrite.MissingFunctionHint(string(retry.ErrorField(payload, 'M')))
	}
	return cmp.Or(batch.TruncateHint(st, payload), batch.RowLimitHint(s.srv.pool.planner, o.bound, plan, st, payload), answer.LimitHint(payload))
}

// isMixedDDLRefusal reports whether DSQL refused DDL because of other statements in the transaction: another DDL
// statement, or changes of rows.
func isMixedDDLRefusal(message []byte) bool {
	return bytes.HasPrefix(message, []byte("multiple ddl statements")) || bytes.HasPrefix(message, []byte("ddl and dml"))
}

// unknownFunction is the SQLSTATE of an unknown function. The server's hint for it is only about types. Sluice
// replaces that hint for functions that Sluice knows.
const unknownFunction = "42883"

// rewriteErrorFields returns the server's error with the client's column names (by dress), and with hint unless that
// is "". If moved is set, the position is mapped to the client's text, or dropped if that text has no such place.
// Other fields do not change. For a malformed error the result is nil.
func (o *pendingReply) rewriteErrorFields(payload []byte, moved bool, hint string, dress mappederror.Renamer) []byte {
	out := mappederror.AppendFields(nil, payload, func(code byte, value []byte) ([]byte, bool) {
		if code == 'H' && hint != "" {
			return nil, false
		}
		n, err := strconv.Atoi(string(value))
		if code != 'P' || !moved || err != nil {
			return dress.RenameInField(code, value), true
		}
		n, ok := o.clientPosition(n)
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

// clientPosition maps a position in the text that the server got to the client's text. ok is false if the client's
// text has no such place. Positions count characters from 1. The server may have got two queries for one.
func (o *pendingReply) clientPosition(n int) (mapped int, ok bool) {
	plan, split := o.sentPlan()
	switch {
	case split == nil:
	case o.kind == wire.Query:
		if n, ok = split.RefusedTextPosition(n); !ok {
			return 0, false
		}
	case o.isLockReply():
		return 0, false
	default:
		n = split.RefusedPosition(n)
	}
	n = plan.ClientPosition(n)
	return n + o.shift, !plan.IsLockTableStart(n)
}

// hintSchemaChanged is the hint for an error about an unknown name that Sluice's schema snapshot has.
const hintSchemaChanged = "Another process may have changed the schema meanwhile, which is read again before the next statement: retry."

// errorRenamerFor returns the renamer for an error or notice about a query with the given plan. It finds the
// relation in the latest schema snapshot, by the names in the payload.
func (srv *Server) errorRenamerFor(plan *rewrite.Plan, payload []byte) mappederror.Renamer {
	if plan == nil || !plan.Mapped {
		return mappederror.Renamer{}
	}
	d := mappederror.Renamer{On: true}
	if now := srv.pool.keeper.Snapshot(); now != nil {
		d.Relation = now.Relation(string(retry.ErrorField(payload, 's')), string(retry.ErrorField(payload, 't')))
	}
	return d
}

// clientNoticeFor returns the notice that the client gets instead of the server's. It has the client's names of
// mapped columns (bytea keys stored as text). nil means that the client gets the server's notice.
func (s *session) clientNoticeFor(frame []byte) []byte {
	if s.t.owed.empty() || s.t.rec.phase != phaseLive {
		return nil
	}
	plan, _ := s.t.owed.first().sentPlan()
	payload := frame[wire.HeaderLen:]
	d := s.srv.errorRenamerFor(plan, payload)
	if !d.On {
		return nil
	}
	out := mappederror.AppendFields(nil, payload, func(code byte, value []byte) ([]byte, bool) { return d.RenameInField(code, value), true })
	if out == nil {
		return nil
	}
	out = append(out, 0)
	return slices.Concat(wire.AppendHeader(nil, wire.NoticeResponse, len(out)), out)
}
