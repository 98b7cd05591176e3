package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// txns makes a history out of lines, one a transaction:
//
//	id began ended outcome | op, op, ...
//
// where an op is "+key:write" (Append), "?key:write" (Missed), "key=1.2.3" (Read),
// "!key=1.2" (Lock), "*row:value" (Mark), "@value" (Now). Elements of a list are
// separated by dots.
func txns(t *testing.T, text string) (all []*Txn) {
	t.Helper()
	for line := range strings.Lines(text) {
		head, rest, ok := strings.Cut(strings.TrimSpace(line), "|")
		if !ok {
			continue
		}
		x := &Txn{}
		var outcome string
		if _, err := fmt.Sscan(head, &x.ID, &x.Began, &x.Ended, &outcome); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		x.Outcome = map[string]Outcome{"committed": Committed, "aborted": Aborted, "unknown": Unknown}[outcome]
		for word := range strings.FieldsSeq(rest) {
			x.Ops = append(x.Ops, op(t, word))
		}
		all = append(all, x)
	}
	return all
}

func op(t *testing.T, word string) Op {
	t.Helper()
	o := Op{}
	scan := func(format string, into ...any) {
		if _, err := fmt.Sscanf(word, format, into...); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
	}
	switch word[0] {
	case '+':
		o.Kind = Append
		scan("+%d:%d", &o.Key, &o.Write)
	case '?':
		o.Kind = Missed
		scan("?%d:%d", &o.Key, &o.Write)
	case '*':
		o.Kind = Mark
		scan("*%d:", &o.Write)
		_, o.Value, _ = strings.Cut(word, ":")
	case '@':
		o.Kind, o.Value = Now, word[1:]
	default:
		text, locks := strings.CutPrefix(word, "!")
		if o.Kind = Read; locks {
			o.Kind = Lock
		}
		key, list, _ := strings.Cut(text, "=")
		fmt.Sscan(key, &o.Key)
		o.Seen = elements(list)
	}
	return o
}

func elements(text string) (ids []int) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '.' }) {
		var id int
		fmt.Sscan(part, &id)
		ids = append(ids, id)
	}
	return ids
}

// A row that was made at another time than its transaction told is untrue, unless it was undone.
func TestCheckTimes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		txns, stored string
		want         BrokenRule
	}{
		{"1 1 2 committed | @noon *5:x", "noon", ""}, {"1 1 2 committed | *5:x @noon", "noon", ""}, {"1 1 2 committed | *5:x", "noon", ""},
		{"1 1 2 committed | @noon *5:x", "midnight", Untrue}, {"1 1 2 committed | *5:x @noon", "midnight", Untrue},
	} {
		found := CheckHistory(&History{Txns: txns(t, test.txns), Marks: map[int]string{5: "x"}, Times: map[int]string{5: test.stored}})
		if got := append(found, Violation{})[0].Rule; got != test.want {
			t.Errorf("%s, stored at %s: %q, want %q", test.txns, test.stored, got, test.want)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, txns string
		lists      map[int][]int
		marks      map[int]string
		want       BrokenRule // the first one
	}{
		{name: "nothing"},
		{"one after the other", "1 1 2 committed | 1= +1:1\n 2 3 4 committed | 1=1 +1:2 1=1.2", map[int][]int{1: {1, 2}}, nil, ""},
		{"side by side", "1 1 5 committed | 1= +1:1\n 2 2 4 committed | 1= +2:2", map[int][]int{1: {1}, 2: {2}}, nil, ""},
		{"write skew is allowed", "1 1 5 committed | 1= 2= +1:1\n 2 2 4 committed | 1= 2= +2:2", map[int][]int{1: {1}, 2: {2}}, nil, ""},
		{"aborted, and not there", "1 1 2 aborted | 1= +1:1 *5:x\n 2 3 4 committed | 1=", nil, nil, ""},
		{"unknown, and there", "1 1 2 unknown | +1:1 +2:1\n 2 3 4 committed | 1=1", map[int][]int{1: {1}, 2: {1}}, nil, ""},
		{"unknown, and there later", "1 1 2 unknown | +1:1\n 2 3 4 committed | 1=\n 3 5 6 committed | 1=1", map[int][]int{1: {1}}, nil, ""},
		{"unknown, and not there", "1 1 2 unknown | +1:1 +2:1 1=9.9.9.1", nil, nil, ""},
		{"what an aborted one saw of its own", "1 1 2 aborted | +1:1 1=", nil, nil, ""},
		{"what an aborted one saw behind its first write", "1 2 3 committed | +1:1 +2:1\n 2 1 4 aborted | 1= +3:2 2=1", map[int][]int{1: {1}, 2: {1}}, nil, ""},
		{"values", "1 1 2 committed | *5:x @noon @noon\n 2 1 2 aborted | @one @two", nil, map[int]string{5: "x"}, ""},
		{"values that were not told", "1 1 2 committed | *5:", nil, map[int]string{5: "x"}, ""},

		{"lost", "1 1 2 committed | +1:1", nil, nil, Lost},
		{"a row lost", "1 1 2 committed | *5:x", nil, nil, Lost},
		{"half of it lost", "1 1 2 committed | +1:1 +2:1", map[int][]int{1: {1}}, nil, Lost},
		{"overwritten", "1 1 5 committed | 1= +1:1\n 2 2 4 committed | 1= +1:2", map[int][]int{1: {1}}, nil, Lost},
		{"twice", "1 1 2 committed | +1:1\n 2 3 4 committed | 1=1 +1:2", map[int][]int{1: {1, 2, 1}}, nil, Twice},
		{"unknown, and twice", "1 1 2 unknown | +1:1", map[int][]int{1: {1, 1}}, nil, Twice},
		{"aborted, and there", "1 1 2 aborted | +1:1", map[int][]int{1: {1}}, nil, Undead},
		{"aborted, and its row is there", "1 1 2 aborted | *5:x", nil, map[int]string{5: "x"}, Undead},
		{"missed, and there", "1 1 2 committed | ?1:1", map[int][]int{1: {1}}, nil, Undead},
		{"in part", "1 1 2 unknown | +1:1 +2:1", map[int][]int{1: {1}}, nil, Partial},
		{"in part, with a row", "1 1 2 unknown | +1:1 *5:", nil, map[int]string{5: "x"}, Partial},
		{"of nobody", "1 1 2 committed | 1=", map[int][]int{1: {7}}, nil, Alien},
		{"a row of nobody", "", nil, map[int]string{5: "x"}, Alien},
		{"read of an aborted one", "1 1 2 aborted | +1:1\n 2 3 4 committed | 1=1", nil, nil, Phantom},
		{"read of another order", "1 1 2 committed | +1:1\n 2 3 4 committed | +1:2\n 3 1 9 committed | 1=2", map[int][]int{1: {1, 2}}, nil, Phantom},
		{"read without its own write", "1 1 2 committed | +1:1 1=", map[int][]int{1: {1}}, nil, Phantom},
		{"read of half", "1 1 5 committed | +1:1 +1:2\n 2 2 4 committed | 1=1", map[int][]int{1: {1, 2}}, nil, Torn},
		{"another's between its own", "1 1 5 committed | +1:1 +1:3\n 2 2 4 committed | +1:2", map[int][]int{1: {1, 2, 3}}, nil, LostUpdate},
		{"a lost update", "1 1 5 committed | 1= +1:1\n 2 2 4 committed | 1= +1:2", map[int][]int{1: {2, 1}}, nil, LostUpdate},
		{"two snapshots", "1 2 3 committed | +1:1 +2:1\n 2 1 4 committed | 1= 2=1", map[int][]int{1: {1}, 2: {1}}, nil, Cycle},
		{"two snapshots of an aborted one", "1 2 3 committed | +1:1 +2:1\n 2 1 4 aborted | 1= 2=1", map[int][]int{1: {1}, 2: {1}}, nil, Cycle},
		{"one key read twice", "1 2 3 committed | +1:1\n 2 1 4 committed | 1= 1=1", map[int][]int{1: {1}}, nil, Cycle},
		{"a stale read", "1 1 2 committed | +1:1\n 2 3 4 committed | 1=", map[int][]int{1: {1}}, nil, Cycle},
		{"a fractured order", "1 1 9 committed | +1:1\n 2 1 9 committed | +2:2\n 3 1 9 committed | 1=1 2=\n 4 1 9 committed | 1= 2=2", map[int][]int{1: {1}, 2: {2}}, nil, Cycle},
		{"a lock that did not hold", "1 1 9 committed | !1= 2=1 +3:1\n 2 1 9 committed | +1:2\n 3 1 9 committed | 1=2 +2:1", map[int][]int{1: {2}, 2: {1}, 3: {1}}, nil, Cycle},
		{"the same without a lock", "1 1 9 committed | 1= 2= +3:1\n 2 1 9 committed | +1:2\n 3 1 9 committed | 1=2 3= +2:1", map[int][]int{1: {2}, 2: {1}, 3: {1}}, nil, ""},
		{"a lock, and a commit that overlaps", "1 1 9 committed | !1= 4=\n 2 1 9 committed | +1:2 3=\n 3 1 9 committed | +3:3 4=\n 4 1 9 committed | 3=3 +4:4", map[int][]int{1: {2}, 3: {3}, 4: {4}}, nil, ""},
		{"another value", "1 1 2 committed | *5:x", nil, map[int]string{5: "y"}, Untrue},
		{"two times", "1 1 2 committed | @noon @midnight", nil, nil, Untrue},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			found := CheckHistory(&History{Txns: txns(t, test.txns), Lists: test.lists, Marks: test.marks})
			var got BrokenRule
			if len(found) > 0 {
				got = found[0].Rule
			}
			if got != test.want {
				t.Errorf("found %q, want %q\n%v", got, test.want, found)
			}
		})
	}
}

// A cycle is told by its reasons alone, and by the shortest way around.
func TestStory(t *testing.T) {
	t.Parallel()
	h := &History{
		Txns:  txns(t, "1 1 2 committed | +1:1 +2:1\n 2 3 4 committed | 1=1 +1:2\n 3 5 6 committed | 1=1.2 2=1 +3:3\n 4 5 9 committed | 1=1 3=3"),
		Lists: map[int][]int{1: {1, 2}, 2: {1}, 3: {3}},
	}
	found := CheckHistory(h)
	if len(found) != 1 || len(found[0].Txns) != 3 {
		t.Fatalf("%v", found)
	}
	const want = "T3 read 1 with what T2 committed; T4 read 3 with what T3 committed; T4 read 1 without what T2 committed"
	if got := found[0].Text; !sameCircle(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// sameCircle compares two ways around that may begin anywhere.
func sameCircle(a, b string) bool {
	x, y := strings.Split(a, "; "), strings.Split(b, "; ")
	for range x {
		if slices.Equal(x, y) {
			return true
		}
		x = append(x[1:], x[0])
	}
	return false
}
