package proxy

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The owed queue: one entry for each frame that the server will answer, and one for each
// answer that Sluice makes up, in the order in which the client expects them. Handlers of
// frames push, reply.go pops. With the entries goes what an error must take back of the
// client's names.

// owed is one reply that the client is owed, or that the backend owes us.
type owed struct {
	// kind is the type of the frame that asked: P B D E C S Q F; 0 is synthetic:
	// its bytes stand in for a reply that the backend was never asked for. Such an
	// entry is never the head: with nothing before it, it is written at once.
	kind byte
	// swallow: asked by us; the client must not see the answer.
	swallow bool
	// forcedError: a Bind sent only to make the server fail; bytes is the error that
	// the client gets instead of the server's.
	forcedError bool
	// apart, of P, B and D of statements: the session's view of names may have been its own by then.
	apart bool
	// masks: some of the answer to plan is not for the client.
	masks bool
	// split is the form in two parts that the statement was sent in, if any; locks:
	// the answer, of Q the next one in it, is that of the part that only locks.
	split *rewrite.Split
	locks bool
	// strung, of Q: some of its statements are answered here; at is how many were answered.
	strung *strung
	at     int
	// shift, of Q: how many characters of the client's text stand in front of what was sent.
	shift int
	// done: the reply has begun to arrive (rows, a tag of a longer string).
	done       bool
	tmpl       *template        // P: being prepared; B: being bound; D: being described
	stmt       *serverStatement // P, C of ours: what the backend is to hold or drop
	clientStmt *clientStatement // D: whose client is to be told; B: which one is bound
	plan       *rewrite.Plan    // E, Q: what runs
	text       string           // E: of the prepared statement that runs; "" when unknown
	bound      *boundDelete     // E: what it takes to run it in batches; nil: it is not
	kept       *keptAnswer      // E, Q: where the answer is kept; nil: it is not
	cursor     *cursorRun       // E: of a cursor, whose FETCH or MOVE is answered; else nil
	fence      bool             // E: it checks the session's advisory locks
	parsed     bool             // D: a ParseComplete goes in front of its answer
	asks       bool             // E: it asks for the time of the transaction
	opens      bool             // E: it is the BEGIN of a block of Sluice's own
	ends       bool             // Q: it is the end of such a block
	told       *told            // D, E: what the client gets in the answer's place; else nil
	// retags, of E and Q: the client is sent another tag for a statement of this plan; nth is how many
	// statements of a settled turn were answered.
	retags *rewrite.Plan
	nth    int
	// bytes of a synthetic answer or a forced error.
	bytes []byte
	// want, of E and Q: what was sent is Sluice's own, or stands for the client's, and has this first word
	// (parse.FirstWords); "" where nothing is expected.
	want string
}

// unasked reports whether a tag that has come for o, behind so many rows, is not that of what was sent.
func (o *owed) unasked(typ byte, frame []byte, rows int) bool {
	return o.want != "" && (typ != wire.CommandComplete || !silent.Fits(o.want, string(frame[wire.HeaderLen:len(frame)-1]), rows))
}

// verbOf returns the first word of a tag; "" for a frame that is none.
func verbOf(typ byte, frame []byte) string {
	if typ != wire.CommandComplete {
		return ""
	}
	verb, _, _ := strings.Cut(string(frame[wire.HeaderLen:len(frame)-1]), " ")
	return verb
}

// boundary reports whether a ReadyForQuery answers the entry: an error before it ends
// there.
func (o *owed) boundary() bool {
	return o.kind == wire.Sync || o.kind == wire.Query || o.kind == wire.FunctionCall
}

// undo takes back a change of a client's statements whose frame the server skipped.
type undo struct {
	seq  uint64 // of the owed entry
	name string
	prev *clientStatement // nil: there was none
}

// owedQueue holds entries in the order of the frames that asked.
type owedQueue struct {
	items []owed
	head  int
	// seq counts entries ever pushed; the head's is seq - len.
	seq   uint64
	undos []undo
	// bytes is about what its entries hold that others may have given up: see weigh.
	bytes int
}

// len is how many answers are owed.
func (q *owedQueue) len() int { return len(q.items) - q.head }

// empty reports whether nothing is owed.
func (q *owedQueue) empty() bool { return q.head == len(q.items) }

// first returns the head entry; the queue must not be empty.
func (q *owedQueue) first() *owed { return &q.items[q.head] }

// cutsKept is told whether the frame at hand, which answers the head, has not come whole: its rest
// then looks like rows, and the head's answer is not kept.
func (q *owedQueue) cutsKept(long bool) {
	if long && !q.empty() && q.first().kept != nil {
		q.first().kept.void = true
	}
}

// push appends an entry and returns it for filling in; valid until the next push. The room
// of entries that were popped is used again before the queue grows.
func (q *owedQueue) push(kind byte) *owed {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, owed{kind: kind})
	q.seq++
	return &q.items[len(q.items)-1]
}

// pop removes the head. With the last entry the undos go: what they would take back has
// been answered.
func (q *owedQueue) pop() {
	q.items[q.head] = owed{}
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		q.forgetUndos()
	}
}

// forgetUndos lets go what errors would have taken back: nothing is owed.
func (q *owedQueue) forgetUndos() {
	clear(q.undos)
	q.undos, q.bytes = q.undos[:0], 0
}

// weigh notes that an entry, or an undo, holds so many bytes until all that is owed is answered.
func (q *owedQueue) weigh(bytes int) { q.bytes += bytes }

// long reports whether so much is owed that the server is to answer before anything is added.
func (q *owedQueue) long() bool { return q.len() >= maxOwed || q.bytes >= mostOwedBytes }

// undoable notes what name meant before the entry pushed last: an error up to that entry
// gives prev its name back.
func (q *owedQueue) undoable(name string, prev *clientStatement) {
	q.undos = append(q.undos, undo{seq: q.seq, name: name, prev: prev})
	q.weigh(len(name))
	if prev != nil {
		q.weigh(int(prev.cost))
	}
}

// failed is told of an error: it takes every entry up to the next boundary off the queue,
// gives each to drop, and returns the undos they carry, the newest first. The boundary
// itself stays: its ReadyForQuery still comes.
func (q *owedQueue) failed(drop func(*owed)) []undo {
	from := q.seq - uint64(q.len()) + 1
	to := from
	for !q.empty() && !q.first().boundary() {
		drop(q.first())
		q.items[q.head] = owed{}
		q.head++
		to++
	}
	var out []undo
	rest := q.undos[:0]
	for _, u := range q.undos {
		switch {
		case u.seq < from:
		case u.seq < to:
			out = append(out, u)
		default:
			rest = append(rest, u)
		}
	}
	q.undos = rest
	if q.empty() {
		q.items, q.head, q.bytes = q.items[:0], 0, 0
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// lost returns the undos of all that is still owed, the newest first. Of a Parse that is
// next to be answered the unnamed statement is gone all the same, as where it fails.
func (q *owedQueue) lost() (out []undo) {
	from := q.seq - uint64(q.len()) + 1
	for _, u := range slices.Backward(q.undos) {
		if u.seq < from {
			break
		}
		if u.seq == from && u.name == "" && q.first().kind == wire.Parse && !q.first().swallow {
			u.prev = nil
		}
		out = append(out, u)
	}
	return out
}

// reset forgets everything, for a backend that is gone or an attempt that is over.
func (q *owedQueue) reset() {
	clear(q.items)
	q.items, q.head = q.items[:0], 0
	q.forgetUndos()
}
