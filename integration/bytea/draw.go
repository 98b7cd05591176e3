package bytea

import "math/rand/v2"

// choiceSequence is a list of numbers that decides what the generator makes. The list is either drawn at random and
// recorded, or given. After the end of a given list every number is zero.
type choiceSequence struct {
	random *rand.Rand // nil for one that is given
	given  []int
	made   []int
}

// newChoiceSequence returns a choiceSequence that depends only on seed and n.
func newChoiceSequence(seed, n uint64) *choiceSequence {
	return &choiceSequence{random: rand.New(rand.NewPCG(seed, n))}
}

// intBelow returns the next number of the list, from 0 to n-1.
func (d *choiceSequence) intBelow(n int) int {
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

// chance returns true with a probability of percent per cent. For the number zero it returns false.
func (d *choiceSequence) chance(percent int) bool { return d.intBelow(100) >= 100-percent }

// pickOne returns one of the given values, which the next number of d selects. Zero selects the first value, the
// simplest.
func pickOne[T any](d *choiceSequence, of ...T) T { return of[d.intBelow(len(of))] }

// shrinkList returns a smaller list of numbers for which wanted returns true. It makes at most tries calls of wanted.
func shrinkList(list []int, tries int, wanted func([]int) bool) []int {
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
