package bytea

import "math/rand/v2"

// draw is a list of numbers that decides what is generated. It is either made as it goes,
// and remembered, or given; behind the end of a given one there are zeros.
type draw struct {
	random *rand.Rand // nil for one that is given
	given  []int
	made   []int
}

// newDraw is a list of its own for each pair of numbers.
func newDraw(seed, n uint64) *draw { return &draw{random: rand.New(rand.NewPCG(seed, n))} }

// below draws a number below n.
func (d *draw) below(n int) int {
	k := 0
	switch at := len(d.made); {
	case d.random != nil:
		k = d.random.IntN(n)
	case at < len(d.given):
		k = d.given[at] % n
	}
	d.made = append(d.made, k)
	return k
}

// chance is true so many times in a hundred; never for a zero.
func (d *draw) chance(percent int) bool { return d.below(100) >= 100-percent }

// one draws one of several; the first is the simplest.
func one[T any](d *draw, of ...T) T { return of[d.below(len(of))] }

// smaller makes a list of numbers smaller, as long as wanted says that it still is what is
// looked for, and tries are left.
func smaller(list []int, tries int, wanted func([]int) bool) []int {
	try := func(l []int) bool {
		if tries--; tries < 0 || !wanted(l) {
			return false
		}
		list = l
		return true
	}
	for changed := true; changed && tries > 0; {
		changed = false
		for size := max(len(list)/2, 1); size >= 1; size /= 2 {
			for at := 0; at+size <= len(list); {
				if try(append(append([]int{}, list[:at]...), list[at+size:]...)) {
					changed = true
				} else {
					at += size
				}
			}
		}
		for at := range list {
			if at >= len(list) || list[at] == 0 {
				continue
			}
			l := append([]int{}, list...)
			if l[at] = 0; try(l) {
				changed = true
				continue
			}
			l = append([]int{}, list...)
			if l[at] = list[at] / 2; l[at] != 0 && try(l) {
				changed = true
			}
		}
	}
	return list
}
