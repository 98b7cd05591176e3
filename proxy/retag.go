package proxy

import (
	"bytes"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Statements that the server gets as other statements (rewrite.Statement.Retag): DELETE for TRUNCATE, a domain for an
// enum. The client and the log get the tag of the client's own statement.

// retagReply replaces the server's tags of statements with a Retag. Settled turns need it in a replay too, which
// compares the tags that the client was sent.
type retagReply struct {
	asSent
	plan *rewrite.Plan
}

// retags sets a retagReply on o if a statement of plan needs one. plan may be nil.
func (o *owed) retags(plan *rewrite.Plan) {
	if plan == nil || o.kind != wire.Execute && o.kind != wire.Query {
		return
	}
	for i := range plan.Statements {
		if plan.Statements[i].Retag != "" {
			o.reply = retagReply{plan: plan}
			return
		}
	}
}

func (r retagReply) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	if f.Type != wire.CommandComplete {
		return undecided, nil
	}
	i := 0
	switch {
	case o.kind != wire.Query:
	case o.plan != nil:
		i = s.t.statement
	default:
		i = int(o.tags) - 1
	}
	if i >= len(r.plan.Statements) || r.plan.Statements[i].Retag == "" {
		return undecided, nil
	}
	if st := &r.plan.Statements[i]; standsFor(f.Verb(), st) {
		return swallow, s.retagEnd(o, st)
	}
	return swallow, s.desync(f.Type)
}

// standsFor reports whether verb, the first word of the server's tag, fits the statement that was sent for st.
func standsFor(verb string, st *rewrite.Statement) bool {
	if st.Truncation != nil { // for several tables a SELECT is sent
		return verb == "DELETE" || verb == "SELECT"
	}
	own, _, _ := strings.Cut(st.Retag, " ")
	return verb == own
}

// retagEnd handles the server's tag for such a statement. The client, the log and the session's records get the
// statement's own tag. If the client has the tag from an earlier attempt, nothing is sent, not even a warning.
func (s *session) retagEnd(o *owed, st *rewrite.Statement) error {
	tag := wire.AppendCommand(nil, st.Retag)
	s.completed(o, wire.CommandComplete, tag)
	if o.kind == wire.Query {
		s.t.statement++
	} else {
		s.t.owed.pop()
	}
	withheld := o.kind == wire.Query && s.t.ownTx.withholds(o, s.t.statement, tag)
	if !withheld && s.noting() && s.noteReply(wire.CommandComplete, tag) > 0 {
		return nil
	}
	for _, warning := range s.warningOf(st) {
		if err := s.passSpan(warning); err != nil {
			return err
		}
	}
	if withheld {
		return nil
	}
	return s.passSpan(tag)
}

// warningOf returns the warning before the tag of a statement that was sent as another one, or nil.
func (s *session) warningOf(st *rewrite.Statement) [][]byte {
	if st.Warning == nil || !s.hearsWarnings() {
		return nil
	}
	e := wire.Error{Code: "01000", Message: st.Warning.Message, Detail: st.Warning.Detail}
	return [][]byte{e.AppendNotice(nil, "WARNING")}
}

// retagRefused returns the error that replaces the server's for a statement that was sent as another one. nil keeps
// the server's error. st may be nil.
func retagRefused(st *rewrite.Statement, payload []byte) *wire.Error {
	switch message := retry.Field(payload, 'M'); {
	case st == nil || st.Retag == "":
		return nil
	case st.Truncation != nil:
		return truncateRefused(st, payload)
	case string(retry.Field(payload, 'C')) == codeReadOnly && bytes.HasPrefix(message, []byte("cannot execute ")):
		return &wire.Error{Code: codeReadOnly, Message: "cannot execute " + st.Retag + " in a read-only transaction"}
	}
	return nil
}
