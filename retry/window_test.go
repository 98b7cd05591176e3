package retry

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever has happened to a window, so many clean ends in a row make it wide
// enough for any number of clients, and it stays between its bounds.
func TestWindowRecovers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newConcurrencyWindow()
		for range rapid.IntRange(0, 500).Draw(r, "events") {
			version := max(w.version-rapid.IntRange(0, 2).Draw(r, "age"), 0)
			if rapid.IntRange(0, 3).Draw(r, "event") == 0 {
				w.recordConflictAt(version)
			} else {
				w.recordCleanEnd(version)
			}
			if w.width < 1 || w.width > maxPasses || w.patience < 1 || w.patience > maxWindowPatience {
				r.Fatalf("%+v", w)
			}
		}
		clients := rapid.IntRange(1, maxPasses).Draw(r, "clients")
		n := 0
		for ; w.width < clients; n++ {
			w.recordCleanEnd(w.version)
		}
		if most := 2*maxWindowPatience + 2*clients; n > most {
			r.Fatalf("%d clean ends for %d clients, want at most %d", n, clients, most)
		}
	})
}

func TestWindow(t *testing.T) {
	t.Parallel()
	w := newConcurrencyWindow()
	step := func(what func(int), version, width, patience int) {
		t.Helper()
		if what(version); w.width != width || w.patience != patience {
			t.Errorf("%+v, want %d wide, patience %d", w, width, patience)
		}
	}
	step(w.recordCleanEnd, w.version, 2, 1)
	step(w.recordCleanEnd, w.version-1, 2, 1) // came before it widened
	step(w.recordCleanEnd, w.version, 2, 1)
	old := w.version
	step(w.recordCleanEnd, w.version, 4, 1)
	step(w.recordConflictAt, old, 2, 2) // as this one, but lost
	step(w.recordConflictAt, old, 2, 2) // of the same crowd
	step(w.recordConflictAt, w.version, 1, 4)
	step(w.recordConflictAt, w.version, 1, 4)
	for range 3 {
		step(w.recordCleanEnd, w.version, 1, 4)
	}
	step(w.recordCleanEnd, w.version, 2, 4)
	for range 3 {
		step(w.recordCleanEnd, w.version, 2, 4)
	}
	step(w.recordConflictAt, w.version, 2, 4) // one of four
	for range 3 {
		step(w.recordCleanEnd, w.version, 2, 4)
	}
	step(w.recordCleanEnd, w.version, 4, 1)
}
