package proxy

import (
	"bytes"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/batch"
	"github.com/sluice-proxy/sluice/proxy/notice"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Sluice sends some statements as other statements: TRUNCATE as DELETE, an enum as a domain. The client and the
// replay log get the command tag of the client's own statement (rewrite.Statement.ReplacementTag).

// retagReply replaces the server's command tag of a statement that was sent as another one (ReplacementTag). Replays
// of finished turns use it too, because they compare the tags that the client got.
type retagReply struct {
	defaultHandler
	plan *rewrite.Plan
}

// setRetagReply sets a retagReply on o if a statement of plan needs another tag than the server's. plan may be nil.
func (o *pendingReply) setRetagReply(plan *rewrite.Plan) {
	if plan == nil || o.kind != wire.Execute && o.kind != wire.Query {
		return
	}
	for i := range plan.Statements {
		if plan.Statements[i].ReplacementTag != "" {
			o.reply = retagReply{plan: plan}
			return
		}
	}
}

func (r retagReply) handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error) {
	if f.Type != wire.CommandComplete {
		return undecided, nil
	}
	i := 0
	switch {
	case o.kind != wire.Query:
	case o.plan != nil:
		i = s.t.server.statement
	default:
		i = int(o.tags) - 1
	}
	if i >= len(r.plan.Statements) || r.plan.Statements[i].ReplacementTag == "" {
		return undecided, nil
	}
	if st := &r.plan.Statements[i]; isTagOfSent(f.TagVerb(), st) {
		return swallow, s.replaceTag(o, st)
	}
	return swallow, s.unexpectedFrameError(f.Type)
}

// isTagOfSent reports whether verb, the first word of the server's tag, fits what Sluice sent in place of st.
func isTagOfSent(verb string, st *rewrite.Statement) bool {
	if st.Truncation != nil { // for several tables a SELECT is sent
		return verb == "DELETE" || verb == "SELECT"
	}
	own, _, _ := strings.Cut(st.ReplacementTag, " ")
	return verb == own
}

// replaceTag handles the server's command tag for a statement sent as another one. Client, replay log and session get
// the statement's own tag. A client that has the tag from an earlier attempt gets neither tag nor warning.
func (s *session) replaceTag(o *pendingReply, st *rewrite.Statement) error {
	tag := wire.AppendCommandComplete(nil, st.ReplacementTag)
	s.recordCompletion(o, wire.CommandComplete, tag)
	if o.kind == wire.Query {
		s.t.server.statement++
	} else {
		s.t.owed.pop()
	}
	withheld := o.kind == wire.Query && s.t.server.internalTx.tryWithholdTag(o, s.t.server.statement, tag)
	if !withheld && s.t.rec.isRecording() && s.recordReply(wire.CommandComplete, tag) > 0 {
		return nil
	}
	for _, warning := range notice.WarningFrames(&s.settings, st) {
		if err := s.sendOrWithhold(warning); err != nil {
			return err
		}
	}
	if withheld {
		return nil
	}
	return s.sendOrWithhold(tag)
}

// retaggedError returns the error that replaces the server's error for a statement that was sent as another one. If the
// client gets the server's error, the result is nil. st may be nil.
func retaggedError(st *rewrite.Statement, payload []byte) *wire.Error {
	switch message := retry.ErrorField(payload, 'M'); {
	case st == nil || st.ReplacementTag == "":
		return nil
	case st.Truncation != nil:
		return batch.TruncateError(st, payload)
	case string(retry.ErrorField(payload, 'C')) == access.CodeReadOnly && bytes.HasPrefix(message, []byte("cannot execute ")):
		return &wire.Error{Code: access.CodeReadOnly, Message: "cannot execute " + st.ReplacementTag + " in a read-only transaction"}
	}
	return nil
}
