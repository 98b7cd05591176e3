package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/batch"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file implements the queue of pending replies. Each entry is a frame that the server will answer, or an answer
// that Sluice makes up, in the client's order. Handlers of frames push entries, and reply.go pops them. The queue also
// holds undos, which revert changes of the client's statement names after an error.

// pendingReply is one reply that the client, or Sluice itself, is still to get.
type pendingReply struct {
	// kind is the type of the frame to answer: P B D E C S Q F. 0 marks a reply that Sluice made up, with its frames in
	// bytes. Sluice sends such a reply as soon as it is first in the queue.
	kind byte
	// swallow means that Sluice sent the frame on its own account, and hides the answer from the client.
	swallow bool
	// mayUseTempTables is set for a Parse, Bind or Describe if names may mean other tables than in other sessions.
	mayUseTempTables bool
	// done means that a part of the reply has arrived: rows, or the first command tag of a multi-statement query.
	done bool
	tags int32 // Q: number of statements that have ended
	// split is the form with two statements in which Sluice sent the client's statement, or nil.
	split *rewrite.SplitQuery
	// shift is the number of characters in the client's Query before the part of its text that Sluice sent.
	shift      int
	tmpl       *statement.Template // P: to prepare; B: to bind; D: to describe
	stmt       *statement.Server   // P, C by Sluice: the statement that the backend prepares or closes
	clientStmt *statement.Client   // D: gets the description; B: is bound
	plan       *rewrite.Plan       // E, Q: of the text that runs
	text       string              // E: of the prepared statement; "" if unknown
	bound      *batch.Params       // E: for running it in batches; nil: not possible
	// reply handles the server's answer if the client must not get it unchanged. nil means that the client gets it.
	reply replyHandler
	bytes []byte // frames of a made-up answer
}

// A replyHandler handles the server's answer to one entry of the queue if the client must not get the answer unchanged.
// Features implement this interface. An entry without a handler makes no interface call.
type replyHandler interface {
	// handleFrame is called for each frame of the answer in order, and for notices in between. It is not called for
	// errors, or for rows that are not inspected (turn.inspectsFrames). If it returns undecided, Sluice handles the
	// frame as without a handler. Any other verdict says whether the client gets the frame; handleFrame has then done
	// all other work. It pops the entry of a complete answer. An error is a lost backend, or ends the session.
	handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error)
	// replaceError is called for the payload of an ErrorResponse. It returns nil if the client gets the error unchanged.
	replaceError(s *session, o *pendingReply, payload []byte) *answer.ErrorHandling
}

// A rowHandler is a replyHandler that also gets the bytes of the answer's rows, in pieces of any length.
type rowHandler interface{ handleRows(s *session, rows []byte) }

// defaultHandler is for embedding in reply handlers that implement only one method of the interface.
type defaultHandler struct{}

func (defaultHandler) handleFrame(*session, *pendingReply, answer.Frame) (frameVerdict, error) {
	return undecided, nil
}
func (defaultHandler) replaceError(*session, *pendingReply, []byte) *answer.ErrorHandling { return nil }

// handlerPair combines two handlers of one reply. The handler next gets the frames for which first returns undecided.
type handlerPair struct{ first, next replyHandler }

// chainHandlers returns a reply handler that calls first, then next. Either may be nil.
func chainHandlers(first, next replyHandler) replyHandler {
	switch {
	case first == nil:
		return next
	case next == nil:
		return first
	}
	return &handlerPair{first, next}
}

func (b *handlerPair) handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error) {
	if v, err := b.first.handleFrame(s, o, f); v != undecided || err != nil {
		return v, err
	}
	return b.next.handleFrame(s, o, f)
}

func (b *handlerPair) handleRows(s *session, rows []byte) {
	for _, r := range []replyHandler{b.first, b.next} {
		if r, ok := r.(rowHandler); ok {
			r.handleRows(s, rows)
		}
	}
}

func (b *handlerPair) replaceError(s *session, o *pendingReply, payload []byte) *answer.ErrorHandling {
	if e := b.first.replaceError(s, o, payload); e != nil {
		return e
	}
	return b.next.replaceError(s, o, payload)
}

// replacementError returns how the handler of a pending reply changes an error. The zero value changes nothing.
func (o *pendingReply) replacementError(s *session, payload []byte) answer.ErrorHandling {
	if o.reply != nil {
		if f := o.reply.replaceError(s, o, payload); f != nil {
			return *f
		}
	}
	return answer.ErrorHandling{}
}

// defaultVerdict returns the verdict (swallow or pass) on a frame that no reply handler has handled.
func (o *pendingReply) defaultVerdict() frameVerdict {
	if o.swallow {
		return swallow
	}
	return pass
}

// hidesNotice reports whether the handler of a pending reply hides a server's notice from the client.
func (o *pendingReply) hidesNotice(s *session, notice []byte) bool {
	if o.reply == nil {
		return false
	}
	v, _ := o.reply.handleFrame(s, o, answer.Frame{Type: wire.NoticeResponse, Bytes: notice, Total: len(notice)}) // no error of a notice
	return v == swallow
}

// expectedTagReply checks that the command tag of an answer fits word, the statement's first word in lower case. With
// another tag, the backend's answers no longer match the queue.
type expectedTagReply struct {
	defaultHandler
	word string
}

var expectBegin, expectStart, expectSelect, expectSet = &expectedTagReply{word: "begin"}, &expectedTagReply{word: "start"}, &expectedTagReply{word: "select"}, &expectedTagReply{word: "set"}

func (e *expectedTagReply) handleFrame(s *session, _ *pendingReply, f answer.Frame) (frameVerdict, error) {
	if f.EndsStatement() && (f.Type != wire.CommandComplete || !silent.TagFits(e.word, f.CommandTag(), s.t.server.rows)) {
		return swallow, s.unexpectedFrameError(f.Type)
	}
	return undecided, nil
}

// endsWithReady reports whether a ReadyForQuery ends the answer of a pending reply. After an error the server skips
// all frames before the next frame with such a reply.
func (o *pendingReply) endsWithReady() bool {
	return o.kind == wire.Sync || o.kind == wire.Query || o.kind == wire.FunctionCall
}

// nameUndo restores a client's statement name if the server skips the frame that changed it.
type nameUndo struct {
	seq  uint64 // of the owed entry
	name string
	prev *statement.Client // nil: there was none
}

// pendingQueue holds pending replies in the order of the frames that they answer.
type pendingQueue struct {
	items []pendingReply
	head  int
	// seq is the number of entries ever pushed. The first entry of the queue has the number seq - len + 1.
	seq   uint64
	undos []nameUndo
	// bytes is the approximate number of bytes of memory that the entries and undos take (addSize).
	bytes int
}

// len returns the number of pending replies.
func (q *pendingQueue) len() int { return len(q.items) - q.head }

// empty reports whether no reply is pending.
func (q *pendingQueue) empty() bool { return q.head == len(q.items) }

// first returns the oldest pending reply. The queue must not be empty.
func (q *pendingQueue) first() *pendingReply { return &q.items[q.head] }

// push appends a pending reply and returns it for filling in. The pointer is valid until the next push.
func (q *pendingQueue) push(kind byte) *pendingReply {
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
	*o = pendingReply{} // in its place: an entry is large
	o.kind = kind
	return o
}

// pop removes the first pending reply. With the last one pop also drops the undos, since no error can follow.
func (q *pendingQueue) pop() {
	q.items[q.head] = pendingReply{}
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		q.clearNameUndos()
	}
}

// clearNameUndos drops all undos of statement names, because no reply is pending.
func (q *pendingQueue) clearNameUndos() {
	clear(q.undos)
	q.undos, q.bytes = q.undos[:0], 0
}

// addSize adds the size of a reply or undo to the queue's size, which becomes 0 when the queue is empty.
func (q *pendingQueue) addSize(bytes int) { q.bytes += bytes }

// isTooLong reports whether the queue is so long or large that the server must answer before another frame is sent.
func (q *pendingQueue) isTooLong() bool { return q.len() >= maxOwed || q.bytes >= mostOwedBytes }

// addNameUndo records prev, the statement that name meant before the latest frame. After an error of the server at that
// frame or an earlier one, the name means prev again.
func (q *pendingQueue) addNameUndo(name string, prev *statement.Client) {
	q.undos = append(q.undos, nameUndo{seq: q.seq, name: name, prev: prev})
	q.addSize(len(name))
	if prev != nil {
		q.addSize(int(prev.Cost))
	}
}

// dropSkipped removes the replies that the server skips after an error, up to the next reply that ends with
// ReadyForQuery. It calls drop for each removed reply, and returns the removed replies' undos, the newest first.
func (q *pendingQueue) dropSkipped(drop func(*pendingReply)) []nameUndo {
	from := q.seq - uint64(q.len()) + 1
	to := from
	for !q.empty() && !q.first().endsWithReady() {
		drop(q.first())
		q.items[q.head] = pendingReply{}
		q.head++
		to++
	}
	var out []nameUndo
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

// pendingNameUndos returns the name undos of all pending replies, the newest first. If the first reply answers a Parse
// of the unnamed statement, that statement does not exist, as after a failed Parse.
func (q *pendingQueue) pendingNameUndos() (out []nameUndo) {
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

// reset empties the queue of pending replies, after the backend is lost or an attempt has ended.
func (q *pendingQueue) reset() {
	clear(q.items)
	q.items, q.head = q.items[:0], 0
	q.clearNameUndos()
}
