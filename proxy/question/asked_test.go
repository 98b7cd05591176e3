package question_test

import (
	"errors"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/question"
)

// A question that a statement_timeout cuts short is sent again, a few times; no other fault is.
func TestAsked(t *testing.T) {
	t.Parallel()
	cut, conflict := []byte("SERROR\x00C57014\x00Mcut\x00\x00"), []byte("SERROR\x00C40001\x00Mno\x00\x00")
	lost := errors.New("lost")
	for name, c := range map[string]struct {
		answers [][]byte // the last one is given to each further question
		err     error
		sent    int
	}{
		"answered":    {answers: [][]byte{nil}, sent: 1},
		"cut once":    {answers: [][]byte{cut, nil}, sent: 2},
		"cut always":  {answers: [][]byte{cut}, sent: 5},
		"a conflict":  {answers: [][]byte{conflict}, sent: 1},
		"a loss":      {answers: [][]byte{nil}, err: lost, sent: 1},
		"cut and not": {answers: [][]byte{cut, cut, conflict}, sent: 3},
	} {
		sent := 0
		refusal, err := question.Asked(func() ([]byte, error) {
			sent++
			return c.answers[min(sent, len(c.answers))-1], c.err
		})
		want := c.answers[min(c.sent, len(c.answers))-1]
		if sent != c.sent || string(refusal) != string(want) || err != c.err {
			t.Errorf("%s: sent %d times, %q and %v; want %d times, %q and %v", name, sent, refusal, err, c.sent, want, c.err)
		}
	}
}
