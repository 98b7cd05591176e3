package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/answer"
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
	// apart, of P, B and D of statements: the session's view of names may have been its own by then.
	apart bool
	// done: the reply has begun to arrive (rows, a tag of a longer query).
	done bool
	tags int32 // Q: how many statements have ended
	// split is the form in two parts that the statement was sent in, if any.
	split *rewrite.Split
	// shift, of Q: how many characters of the client's text stand in front of what was sent.
	shift      int
	tmpl       *template        // P: being prepared; B: being bound; D: being described
	stmt       *serverStatement // P, C of ours: what the backend is to hold or drop
	clientStmt *clientStatement // D: whose client is to be told; B: which one is bound
	plan       *rewrite.Plan    // E, Q: what runs
	text       string           // E: of the prepared statement that runs; "" when unknown
	bound      *boundDelete     // E: what it takes to run it in batches; nil: it is not
	// reply handles the answer, of which the client does not get all as it comes; nil: it does.
	reply reply
	bytes []byte // of a synthetic answer
}

// A reply handles the server's answer to one entry that the client must not get as it comes.
// A feature implements it beside its other code. An entry without a reply meets no call of it.
type reply interface {
	// frame is called for each frame of the answer in its order, and for notices that come meanwhile.
	// Errors go to fails, and rows that pass by unseen (turn.looks) to nobody. With undecided the frame
	// means what it means without a reply. Else frame has done all that the frame asks for: it has popped
	// the entry where the frame is the answer's last, and the verdict says whether the frame passes.
	// The error is a lost backend, or the session's end.
	frame(s *session, o *owed, f answer.Frame) (verdict, error)
	// fails is called instead for an error of the server's, with its payload; nil: it has nothing to say.
	fails(s *session, o *owed, payload []byte) *answer.Error
}

// A rowReply also takes the rows of the answer, as they come from the server, cut anywhere.
type rowReply interface{ span(s *session, rows []byte) }

// asSent is embedded by replies that implement a part of the interface.
type asSent struct{}

func (asSent) frame(*session, *owed, answer.Frame) (verdict, error) { return undecided, nil }
func (asSent) fails(*session, *owed, []byte) *answer.Error          { return nil }

// both are two replies of one entry: next gets the frames that first leaves undecided.
type both struct{ first, next reply }

// chained returns a reply of both; next may be nil, and first as well.
func chained(first, next reply) reply {
	switch {
	case first == nil:
		return next
	case next == nil:
		return first
	}
	return &both{first, next}
}

func (b *both) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	if v, err := b.first.frame(s, o, f); v != undecided || err != nil {
		return v, err
	}
	return b.next.frame(s, o, f)
}

func (b *both) span(s *session, rows []byte) {
	for _, r := range []reply{b.first, b.next} {
		if r, ok := r.(rowReply); ok {
			r.span(s, rows)
		}
	}
}

func (b *both) fails(s *session, o *owed, payload []byte) *answer.Error {
	if e := b.first.fails(s, o, payload); e != nil {
		return e
	}
	return b.next.fails(s, o, payload)
}

// fails returns what the entry's reply makes of an error; the zero value where it has none.
func (o *owed) fails(s *session, payload []byte) answer.Error {
	if o.reply != nil {
		if f := o.reply.fails(s, o, payload); f != nil {
			return *f
		}
	}
	return answer.Error{}
}

// hidden is the verdict on a frame that no reply has dealt with.
func (o *owed) hidden() verdict {
	if o.swallow {
		return swallow
	}
	return pass
}

// hides reports whether the reply keeps a notice from the client.
func (o *owed) hides(s *session, notice []byte) bool {
	if o.reply == nil {
		return false
	}
	v, _ := o.reply.frame(s, o, answer.Frame{Type: wire.NoticeResponse, Bytes: notice, Total: len(notice)}) // no error of a notice
	return v == swallow
}

// expected is the answer to a statement of Sluice's own, or to one that stands for the client's: its first
// word is in parse.FirstWords. Another tag means that the backend is out of step.
type expected struct {
	asSent
	word string
}

var expectBegin, expectStart, expectSelect, expectSet = &expected{word: "begin"}, &expected{word: "start"}, &expected{word: "select"}, &expected{word: "set"}

func (e *expected) frame(s *session, _ *owed, f answer.Frame) (verdict, error) {
	if f.Ends() && (f.Type != wire.CommandComplete || !silent.Fits(e.word, f.Tag(), s.t.rows)) {
		return swallow, s.desync(f.Type)
	}
	return undecided, nil
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

// push appends an entry and returns it for filling in; valid until the next push. The room
// of entries that were popped is used again before the queue grows.
func (q *owedQueue) push(kind byte) *owed {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	if len(q.items) == cap(q.items) {
		q.items = slices.Grow(q.items, 1)
	}
	q.items = q.items[:len(q.items)+1]
	q.seq++
	o := &q.items[len(q.items)-1]
	*o = owed{} // in its place: an entry is large
	o.kind = kind
	return o
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
