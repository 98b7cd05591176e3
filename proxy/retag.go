package proxy

import (
	"bytes"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Statements for which another one was sent (rewrite.Statement.Retag): a DELETE for TRUNCATE, a
// domain for an enumeration. The client is sent the tag of its own statement, and the log has that in
// the place of the server's.

// retagReply is the answer to statements of a plan where one's tag is another than the server's. Settled turns
// have it too, whose entries have no plan otherwise: a replay compares the tags that the client was sent.
type retagReply struct {
	asSent
	plan *rewrite.Plan
}

// retags gives the entry of a text of that plan, which may be nil, such a reply where it needs one.
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

// standsFor reports whether a tag with that first word is that of what was sent for a statement which has a
// tag of its own.
func standsFor(verb string, st *rewrite.Statement) bool {
	if st.Truncation != nil { // of several tables it is a query
		return verb == "DELETE" || verb == "SELECT"
	}
	own, _, _ := strings.Cut(st.Retag, " ")
	return verb == own
}

// retagEnd is such a tag: the client, and all that looks at tags, get the statement's own. The log has
// what the client gets, in its place among the answers; where it has been delivered already, nothing
// is sent, and no warning either.
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

// warningOf is what the client is told in front of the tag of a statement for which another stands.
func (s *session) warningOf(st *rewrite.Statement) [][]byte {
	if st.Warning == nil || !s.hearsWarnings() {
		return nil
	}
	e := wire.Error{Code: "01000", Message: st.Warning.Message, Detail: st.Warning.Detail}
	return [][]byte{e.AppendNotice(nil, "WARNING")}
}

// retagRefused is what the client is told of an error about a statement that stands for its own; nil
// for one that it is told as it is. st may be nil.
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
