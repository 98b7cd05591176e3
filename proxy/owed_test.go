package proxy

import (
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"pgregory.net/rapid"
)

// owedModel is the queue as plain slices: each entry carries its undos.
type owedModel []modelEntry

type modelEntry struct {
	kind    byte
	swallow bool
	undos   []nameUndo
}

// names are the undos of entries, the newest first, without their numbers.
func (m owedModel) names() (out []nameUndo) {
	for _, e := range slices.Backward(m) {
		for _, u := range slices.Backward(e.undos) {
			out = append(out, u)
		}
	}
	return out
}

func unnumbered(undos []nameUndo) (out []nameUndo) {
	for _, u := range undos {
		out = append(out, nameUndo{name: u.name, prev: u.prev})
	}
	return out
}

// The queue gives entries in order, and with each error or loss the undos of exactly
// those entries that will not be answered, the newest first.
func TestOwedQueue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q pendingQueue
		var m owedModel
		check := func() {
			if q.len() != len(m) || q.empty() != (len(m) == 0) {
				t.Fatalf("%d entries, want %d", q.len(), len(m))
			}
			if len(m) > 0 && q.first().kind != m[0].kind {
				t.Fatalf("the first is %c, want %c", q.first().kind, m[0].kind)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check() },
			"push": func(t *rapid.T) {
				e := modelEntry{kind: rapid.SampledFrom([]byte("PPBDECSQF")).Draw(t, "kind"), swallow: rapid.Bool().Draw(t, "swallow")}
				q.push(e.kind).swallow = e.swallow
				for range rapid.IntRange(0, 2).Draw(t, "undos") {
					name, prev := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name"), &statement.Client{}
					q.addNameUndo(name, prev)
					e.undos = append(e.undos, nameUndo{name: name, prev: prev})
				}
				m = append(m, e)
			},
			"pop": func(t *rapid.T) {
				if len(m) > 0 {
					q.pop()
					m = m[1:]
				}
			},
			"failed": func(t *rapid.T) {
				n := slices.IndexFunc(m, func(e modelEntry) bool {
					return e.kind == wire.Sync || e.kind == wire.Query || e.kind == wire.FunctionCall
				})
				if n < 0 {
					n = len(m)
				}
				var dropped []byte
				got := q.dropSkipped(func(o *pendingReply) { dropped = append(dropped, o.kind) })
				for i, e := range m[:n] {
					if i >= len(dropped) || dropped[i] != e.kind {
						t.Fatalf("dropped %q of %d", dropped, n)
					}
				}
				if want := m[:n].names(); !reflect.DeepEqual(unnumbered(got), want) || len(dropped) != n {
					t.Fatalf("undos %v, want %v; dropped %q", got, want, dropped)
				}
				m = m[n:]
			},
			"lost": func(t *rapid.T) {
				want := m.names()
				if len(m) > 0 && m[0].kind == wire.Parse && !m[0].swallow { // it fails, and destroys the unnamed statement
					for i := range want[len(want)-len(m[0].undos):] {
						if u := &want[len(want)-len(m[0].undos)+i]; u.name == "" {
							u.prev = nil
						}
					}
				}
				if got := q.pendingNameUndos(); !reflect.DeepEqual(unnumbered(got), want) {
					t.Fatalf("undos %v, want %v", got, want)
				}
			},
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "now") == 0 { // rarely: else the queue stays short
					q.reset()
					m = nil
				}
			},
		})
	})
}

// takes deals with frames of one type, and with errors where it says so.
type takes struct {
	typ  byte
	hint string
}

func (r takes) handleFrame(_ *session, _ *pendingReply, f answer.Frame) (frameVerdict, error) {
	if f.Type == r.typ {
		return swallow, nil
	}
	return undecided, nil
}

func (r takes) replaceError(*session, *pendingReply, []byte) *answer.ErrorHandling {
	if r.hint == "" {
		return nil
	}
	return &answer.ErrorHandling{Hint: r.hint}
}

// Of chained replies the first decides, and the next about what the first leaves.
func TestChainedReplies(t *testing.T) {
	t.Parallel()
	first, next := takes{typ: 'a'}, takes{typ: 'b', hint: "next"}
	o := pendingReply{reply: chainHandlers(first, next)}
	for typ, want := range map[byte]frameVerdict{'a': swallow, 'b': swallow, 'c': undecided} {
		if v, err := o.reply.handleFrame(nil, &o, answer.Frame{Type: typ}); v != want || err != nil {
			t.Errorf("%c: %d, %v, want %d", typ, v, err, want)
		}
	}
	if e := o.replacementError(nil, nil); e.Hint != "next" {
		t.Errorf("the error is %+v", e)
	}
	o.reply = chainHandlers(takes{hint: "first"}, next)
	if e := o.replacementError(nil, nil); e.Hint != "first" {
		t.Errorf("the error is %+v", e)
	}
	if chainHandlers(nil, nil) != nil || chainHandlers(first, nil) != replyHandler(first) || chainHandlers(nil, next) != replyHandler(next) {
		t.Error("one reply is wrapped")
	}
	if e := (&pendingReply{}).replacementError(nil, nil); e.Hint != "" {
		t.Errorf("an entry without a reply makes %+v of an error", e)
	}
}

// An entry is cleared at each push and pop: it stays small.
func TestSizeOfOwed(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(pendingReply{}); size > 128 {
		t.Errorf("an entry has %d bytes", size)
	}
}
