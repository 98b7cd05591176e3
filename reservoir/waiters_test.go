package reservoir

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Who goes ahead is served before all others, and in both lines first come,
// first served, whoever leaves in between.
func TestWaitersAgainstTwoLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q waiters[int]
		var lines [2][]*waiter[int] // those who go ahead, the others
		for i := range rapid.IntRange(0, 40).Draw(t, "steps") {
			waiting := slices.Concat(lines[0], lines[1])
			switch step := rapid.IntRange(0, 3).Draw(t, "step"); {
			case step < 2:
				lines[step] = append(lines[step], q.join(step == 0))
			case len(waiting) == 0:
			case step == 2:
				w := rapid.SampledFrom(waiting).Draw(t, "who leaves")
				if !q.leave(w) || q.leave(w) {
					t.Fatal("left otherwise than once")
				}
				for i, line := range lines {
					lines[i] = slices.DeleteFunc(slices.Clone(line), func(x *waiter[int]) bool { return x == w })
				}
			default:
				q.serve(i)
				select {
				case v := <-waiting[0].served:
					if v != i {
						t.Fatalf("served %d for %d", v, i)
					}
				default:
					t.Fatal("another was served")
				}
				if len(lines[0]) > 0 {
					lines[0] = lines[0][1:]
				} else {
					lines[1] = lines[1][1:]
				}
			}
			if q.queue.Len() != len(lines[0])+len(lines[1]) {
				t.Fatalf("%d wait, want %d and %d", q.queue.Len(), len(lines[0]), len(lines[1]))
			}
		}
		q.dismiss()
		for _, w := range slices.Concat(lines[0], lines[1]) {
			if _, ok := <-w.served; ok {
				t.Fatal("served in place of sent away")
			}
		}
	})
}
