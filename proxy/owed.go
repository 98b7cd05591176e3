package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/batch"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file implements the queue of pending replies. Each entry is a frame that the server will answer, or an answer
// that Sluice makes up, in the client's order. Handlers of frames push entries, reply.go pops them. The queue also
// holds undos: changes of the client's statement names that an error takes back.

// owed is one pending reply: the client waits for it, or Sluice itself does.
type owed struct {
	// kind is the type of the frame to answer: P B D E C S Q F. 0 marks a reply that Sluice made up, with its frames in
	// bytes. Such an entry is never first in the queue, since it is sent once nothing precedes it.
	kind byte
	// swallow: Sluice sent the frame on its own account, and hides the answer from the client.
	swallow bool
	// apart, for P, B and D: tables may have had other meanings in this session than in others (session.apart).
	apart bool
	// done: a part of the reply has arrived, such as rows, or the tag of a multi-statement query's first statement.
	done bool
	tags int32 // Q: number of statements that have ended
	// split is the two-statement form in which the statement was sent, or nil.
	split *rewrite.Split
	// shift, for Q: number of characters of the client's text in front of the text that was sent.
	shift      int
	tmpl       *template        // P: to prepare; B: to bind; D: to describe
	stmt       *serverStatement // P, C by Sluice: the statement that the backend prepares or closes
	clientStmt *clientStatement // D: gets the description; B: is bound
	plan       *rewrite.Plan    // E, Q: of the text that runs
	text       string           // E: of the prepared statement; "" if unknown
	bound      *batch.Params    // E: for running it in batches; nil: not possible
	// reply handles the server's answer if the client must not get it unchanged. nil: the client gets it unchanged.
	reply reply
	bytes []byte // frames of a made-up answer
}

// A reply handles the server's answer to one entry whose answer the client must not get unchanged. Features implement
// it. An entry without a reply makes no interface call.
type reply interface {
	// frame is called for each frame of the answer in order, and for notices in between. It is not called for errors, or
	// for rows that turn.looks does not ask for. undecided means that the frame is handled as without a reply. Any other
	// verdict says whether the frame passes. frame has then done the rest, and popped the entry if the answer is complete.
	// The error is a lost backend, or ends the session.
	frame(s *session, o *owed, f answer.Frame) (verdict, error)
	// fails is called for the payload of an ErrorResponse instead. nil: the error passes unchanged.
	fails(s *session, o *owed, payload []byte) *answer.Error
}

// A rowReply also gets the bytes of the answer's rows, in pieces of any length.
type rowReply interface{ span(s *session, rows []byte) }

// asSent is embedded by replies that implement only one method of the interface.
type asSent struct{}

func (asSent) frame(*session, *owed, answer.Frame) (verdict, error) { return undecided, nil }
func (asSent) fails(*session, *owed, []byte) *answer.Error          { return nil }

// both combines two replies of one entry: next gets the frames for which first returns undecided.
type both struct{ first, next reply }

// chained returns a reply that calls first, then next. Either may be nil.
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

// fails returns how the entry's reply changes an error, or the zero value if the error passes unchanged.
func (o *owed) fails(s *session, payload []byte) answer.Error {
	if o.reply != nil {
		if f := o.reply.fails(s, o, payload); f != nil {
			return *f
		}
	}
	return answer.Error{}
}

// hidden returns the verdict on a frame that no reply handled: swallow or pass.
func (o *owed) hidden() verdict {
	if o.swallow {
		return swallow
	}
	return pass
}

// hides reports whether the entry's reply hides a notice from the client.
func (o *owed) hides(s *session, notice []byte) bool {
	if o.reply == nil {
		return false
	}
	v, _ := o.reply.frame(s, o, answer.Frame{Type: wire.NoticeResponse, Bytes: notice, Total: len(notice)}) // no error of a notice
	return v == swallow
}

// expected checks that the answer's command tag fits word, the statement's first word in lower case (parse.FirstWords).
// Another tag means that the backend is out of step.
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

// boundary reports whether a ReadyForQuery ends the entry's answer. After an error the server skips frames up to it.
func (o *owed) boundary() bool {
	return o.kind == wire.Sync || o.kind == wire.Query || o.kind == wire.FunctionCall
}

// undo restores a client's statement name if the server skips the frame that changed it.
type undo struct {
	seq  uint64 // of the owed entry
	name string
	prev *clientStatement // nil: there was none
}

// owedQueue holds pending replies in the order of the frames they answer.
type owedQueue struct {
	items []owed
	head  int
	// seq counts the entries ever pushed. The first entry's number is seq - len + 1.
	seq   uint64
	undos []undo
	// bytes is the approximate size of what the entries hold, which others may no longer hold: see weigh.
	bytes int
}

// len returns the number of pending replies.
func (q *owedQueue) len() int { return len(q.items) - q.head }

// empty reports whether no reply is pending.
func (q *owedQueue) empty() bool { return q.head == len(q.items) }

// first returns the oldest entry. The queue must not be empty.
func (q *owedQueue) first() *owed { return &q.items[q.head] }

// push appends an entry and returns it for filling in. The pointer is valid until the next push.
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

// pop removes the first entry. With the last entry it also drops the undos, since no error can follow.
func (q *owedQueue) pop() {
	q.items[q.head] = owed{}
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		q.forgetUndos()
	}
}

// forgetUndos drops all undos, because no reply is pending.
func (q *owedQueue) forgetUndos() {
	clear(q.undos)
	q.undos, q.bytes = q.undos[:0], 0
}

// weigh adds the size of an entry or undo to the queue's size, until the queue is empty.
func (q *owedQueue) weigh(bytes int) { q.bytes += bytes }

// long reports whether the queue is so long or large that the server must answer before another entry is pushed.
func (q *owedQueue) long() bool { return q.len() >= maxOwed || q.bytes >= mostOwedBytes }

// undoable records prev, the statement that name meant before the latest entry. An error up to that entry gives the
// name back to prev.
func (q *owedQueue) undoable(name string, prev *clientStatement) {
	q.undos = append(q.undos, undo{seq: q.seq, name: name, prev: prev})
	q.weigh(len(name))
	if prev != nil {
		q.weigh(int(prev.cost))
	}
}

// failed removes the entries that the server skips after an error, up to the next boundary, which stays. It calls drop
// for each of them, and returns their undos, the newest first.
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

// lost returns the undos of all pending replies, the newest first. If the first one answers a Parse of the unnamed
// statement, that statement is gone, as after a failed Parse.
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

// reset empties the queue, after the backend is lost or an attempt has ended.
func (q *owedQueue) reset() {
	clear(q.items)
	q.items, q.head = q.items[:0], 0
	q.forgetUndos()
}
