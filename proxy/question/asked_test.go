package question_test

import (
	"errors"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/question"
)

// A question that a statement_timeout cuts short is sent again, a few times; no other fault is.
func TestAsked(t *testing.T) {
	t.Parallel()
	const cut, conflict = "57014", "40001"
	lost := errors.New("lost")
	for name, c := range map[string]struct {
		answers []string // the last one is given to each further question
		err     error
		sent    int
	}{
		"answered":    {answers: []string{""}, sent: 1},
		"cut once":    {answers: []string{cut, ""}, sent: 2},
		"cut always":  {answers: []string{cut}, sent: 5},
		"a conflict":  {answers: []string{conflict}, sent: 1},
		"a loss":      {answers: []string{""}, err: lost, sent: 1},
		"cut and not": {answers: []string{cut, cut, conflict}, sent: 3},
	} {
		sent := 0
		question.RetryInterrupted(func() (string, error) {
			sent++
			return c.answers[min(sent, len(c.answers))-1], c.err
		})
		if sent != c.sent {
			t.Errorf("%s: sent %d times, want %d", name, sent, c.sent)
		}
	}
}
