package parse

import (
	"testing"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
)

// FuzzGuard holds that no text that passes the guard has a tree deeper than the
// guard says. Its texts are pumped, as an attacker would.
func FuzzGuard(f *testing.F) {
	for _, p := range sqltexts.DeepTexts {
		f.Add(p.Head, p.Term, p.Mid, p.End, p.Tail)
	}
	f.Fuzz(func(t *testing.T, head, term, mid, end, tail string) {
		const most = 2000 // bytes; the parser takes a millisecond then
		n := most / (len(term) + len(end) + 1)
		if len(head)+len(mid)+len(tail) > most {
			return
		}
		text := sqltexts.RepeatedText{Head: head, Term: term, Mid: mid, End: end, Tail: tail}.Text(n)
		if CheckLimits([]byte(text), usualBytes, usualNesting) != Fits {
			return
		}
		checkDepth(t, text)
	})
}
