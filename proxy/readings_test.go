package proxy

import (
	"errors"
	"testing"

	"github.com/sluice-proxy/sluice/metrics"
)

// Whoever waits for a reading whose session was stopped makes the next one at once, as if
// none had been tried.
func TestReaderThatWasStopped(t *testing.T) {
	k := &keeper{}
	first, mine := k.fit(metrics.LoadError)
	if other, both := k.fit(metrics.LoadError); !mine || both || other != first || first.left() {
		t.Fatal("two read at once")
	}
	first.err = errReaderLeft
	k.fitted(first, metrics.LoadError)
	if !first.left() || k.failure() != nil {
		t.Errorf("left %v, failure %v", first.left(), k.failure())
	}
	second, mine := k.fit(metrics.LoadError)
	if !mine {
		t.Fatal("nobody reads in its place")
	}
	second.err = errors.New("refused")
	k.fitted(second, metrics.LoadError)
	if third, _ := k.fit(metrics.LoadError); second.left() || k.failure() != second.err || third != nil {
		t.Errorf("left %v, failure %v, and another reading %v", second.left(), k.failure(), third != nil)
	}
}
