package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// PostgreSQL makes a statement's writes visible to later statements (CommandCounterIncrement) at every Parse, and
// when an Execute reaches the portal's end. It does not do so at a suspended portal, or at other frames.

// emptyParseType marks, in the replay log, an empty Parse of bumpCommandCounter. The protocol has no such type.
const emptyParseType = 1

// trackExecuteLimit records an Execute with a row limit that is about to be sent. A limit that is 0, or negative as an
// int32, means no limit.
func (t *turn) trackExecuteLimit(kind rewrite.StatementKind, limit uint32) {
	t.request.executed = t.request.executed || kind != rewrite.Control && kind != rewrite.Empty // BEGIN and the like do not count: sqlerror.DiscardInPipeline
	switch limited := int32(limit) > 0; {
	case limited && kind != rewrite.Empty: // even a SELECT may have written, by a function
		t.unseen = true
	case !limited && kind != rewrite.Empty:
		t.unseen = false
	}
}

// bumpCommandCounter sends an empty Parse, so that rows written by a suspended portal become visible. PostgreSQL
// would make them visible at the client's Parse or Execute, which Sluice answers without PostgreSQL. If all written
// rows are visible, bumpCommandCounter sends nothing.
func (p *pairing) bumpCommandCounter() {
	if p.t.unseen && p.state == busy {
		p.t.rec.logFrame(emptyParseType, logEntry{}, nil)
		p.t.sendEmptyParse()
	}
}

// sendEmptyParse sends the server an empty Parse. The client gets no reply. Clients' statements never use the server's
// unnamed statement.
func (t *turn) sendEmptyParse() {
	t.unseen = false
	t.owed.push(wire.Parse).swallow = true
	t.addToBatch(wire.AppendParse(t.scratch[:0], "", "", wire.NoOIDs))
}
