package bytea

import "math/rand/v2"

// draw is a list of numbers that decides what the generator makes. The list is either drawn at random and recorded, or
// given. After the end of a given list every number is zero.
type draw struct {
	random *rand.Rand // nil for one that is given
	given  []int
	made   []int
}

// newDraw returns a draw that depends only on the pair of numbers.
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

// chance returns true in so many of a hundred draws; for the number zero it returns false.
func (d *draw) chance(percent int) bool { return d.below(100) >= 100-percent }

// one draws one of several values; the first value is the simplest.
func one[T any](d *draw, of ...T) T { return of[d.below(len(of))] }

// smaller returns a smaller list of numbers for which wanted returns true. It makes at most tries calls of wanted.
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
