package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// PostgreSQL makes a statement's writes visible to later statements (CommandCounterIncrement) at every Parse, and when
// an Execute reaches the portal's end. When an Execute suspends a portal, the portal's writes stay invisible.

// emptyParseType marks an empty Parse of bumpCommandCounter in the replay log. The protocol has no such frame type.
const emptyParseType = 1

// trackExecuteLimit records whether an Execute that is about to be sent has a row limit, so that its portal may be
// suspended. A limit that is 0, or negative as an int32, means no limit.
func (t *turn) trackExecuteLimit(kind rewrite.StatementKind, limit uint32) {
	t.request.executed = t.request.executed || kind != rewrite.Control && kind != rewrite.Empty // BEGIN and the like do not count: sqlerror.DiscardInPipeline
	switch limited := int32(limit) > 0; {
	case limited && kind != rewrite.Empty: // even a SELECT may have written, by a function
		t.unseen = true
	case !limited && kind != rewrite.Empty:
		t.unseen = false
	}
}

// bumpCommandCounter sends an empty Parse if rows that a suspended portal wrote may be invisible, and so makes them
// visible. PostgreSQL would make them visible at the client's Parse or Execute, but Sluice answers that frame itself.
func (p *pairing) bumpCommandCounter() {
	if p.t.unseen && p.state == busy {
		p.t.rec.logFrame(emptyParseType, logEntry{}, nil)
		p.t.sendEmptyParse()
	}
}

// sendEmptyParse sends the server an empty Parse, and the client gets no reply. The Parse replaces the server's unnamed
// statement, which no client's statement uses.
func (t *turn) sendEmptyParse() {
	t.unseen = false
	t.owed.push(wire.Parse).swallow = true
	t.addToBatch(wire.AppendParse(t.scratch[:0], "", "", wire.NoOIDs))
}
