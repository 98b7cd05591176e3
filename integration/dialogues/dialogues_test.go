package dialogues

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var (
	countFlag  = flag.Int("dialogues.count", 60, "how many dialogues")
	seedFlag   = flag.Uint64("dialogues.seed", 1, "the seed that they are drawn from")
	routeFlag  = flag.String("dialogues.route", "", "one route: plain, rewrite, replay, dsql, savepoints, strict, parts")
	onlyFlag   = flag.Int("dialogues.only", -1, "this dialogue alone")
	fromFlag   = flag.Int("dialogues.from", 0, "the first dialogue of each route: those before it are left out")
	scriptFlag = flag.String("dialogues.script", "", "the dialogue in this file alone")
	openFlag   = flag.Bool("dialogues.open", false, "fail at differences that are known and not mended yet too")
	binFlag    = flag.String("dialogues.bin", "", "a directory with the daemon that is tried; none: that of this source")
	themeFlag  = flag.String("dialogues.theme", "", "only those dialogues of the seed that have this theme")
	ignoreFlag = flag.String("dialogues.ignore", "", "a regular expression: differences that match are counted only")
	shrinkFlag = flag.Int("dialogues.shrink", 300, "how often a dialogue that differs is tried with less in it")
	keepFlag   = flag.Bool("dialogues.all", false, "go on behind a difference, and list all")
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// check plays a dialogue on both ways, and returns the difference.
func (w *world) check(d dialogue) (string, tale, error) {
	d = d.settled()
	if err := w.begin(d); err != nil {
		return "", tale{}, err
	}
	told, err := w.tell(d)
	if err != nil {
		return "", told, err
	}
	if told.breach != "" {
		return fmt.Sprintf("step %d: %s%s", told.at+1, d.steps[told.at], told.breach), told, nil
	}
	if diff := w.unplanned(d, told); diff != "" {
		return diff, told, nil
	}
	diff, err := w.explain(d, told)
	return diff, told, err
}

// ignored tells whether a difference is one that whoever runs this knows of.
func ignored(diff string) bool {
	return !*openFlag && slices.ContainsFunc(open, func(known *regexp.Regexp) bool { return known.MatchString(diff) }) || *ignoreFlag != "" && regexp.MustCompile(*ignoreFlag).MatchString(diff)
}

// TestDialogues finds no difference between Sluice and PostgreSQL.
func TestDialogues(t *testing.T) {
	var mu sync.Mutex
	met := map[string]int{}
	t.Cleanup(func() { // when all routes are done
		for _, d := range differences {
			if *countFlag >= 5000 && *routeFlag == "" && *scriptFlag == "" && *themeFlag == "" && *onlyFlag < 0 && !d.rare && met[d.row] == 0 {
				t.Errorf("docs/compatibility.md says %q, and in %d dialogues it was not met", d.row, *countFlag)
			}
		}
	})
	for _, r := range routes {
		if *routeFlag != "" && *routeFlag != r.name {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, r, harness.Bin(*binFlag))
			if *scriptFlag != "" {
				w.script(t, *scriptFlag)
				return
			}
			w.run(t, *seedFlag, *countFlag/len(routes)+1)
			mu.Lock()
			defer mu.Unlock()
			for row, n := range w.met {
				met[row] += n
			}
		})
	}
}

// script plays the dialogue of a file.
func (w *world) script(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := parseDialogue(string(text))
	if err != nil {
		t.Fatal(err)
	}
	diff, told, err := w.check(d)
	t.Log(transcript(d, told))
	if err != nil {
		t.Fatal(err)
	}
	if diff != "" {
		t.Error(diff)
	}
}

// perReport is after how many dialogues a long run says that it goes on.
const perReport = 250

// run plays many dialogues, up to the first difference.
func (w *world) run(t *testing.T, seed uint64, count int) {
	classes, struck := map[string]int{}, 0
	differences, passed, played, again := 0, 0, 0, 0
	began := time.Now()
	for n := range count {
		if *onlyFlag >= 0 && n > 0 {
			break
		}
		if *onlyFlag >= 0 {
			n = *onlyFlag
		}
		d, met := draw(seed, n, w.route)
		if n < *fromFlag {
			continue
		}
		if *themeFlag != "" && met["theme "+*themeFlag] == 0 {
			continue
		}
		if played++; played%perReport == 0 {
			t.Logf("%s: %d dialogues in %v", w.name, played, time.Since(began).Round(time.Second))
		}
		for class, k := range met {
			classes[class] += k
		}
		diff, told, err := w.check(d)
		if *onlyFlag >= 0 {
			t.Log("\n" + d.String())
			t.Log(transcript(d, told))
		}
		for range mostLate {
			if err != nil || !late(diff) {
				break
			}
			again++
			diff, told, err = w.check(d)
		}
		if err != nil {
			t.Fatalf("dialogue %d of seed %d: %v\n%s", n, seed, err, d)
		}
		if told.struck || told.struckAt {
			struck++
		}
		if diff == "" {
			continue
		}
		if ignored(diff) {
			passed++
			continue
		}
		if *keepFlag {
			t.Logf("as it was told:\n%s", transcript(d, told))
		}
		small, last := w.shrink(d, diff)
		t.Errorf("dialogue %d of seed %d on route %s: %s\nmade smaller:\n%s\n%s", n, seed, w.name, diff, small, last)
		if differences++; !*keepFlag || differences > 50 {
			break
		}
	}
	t.Logf("%s, seed %d: %d of %d dialogues in %v, %d faults struck, %d differences ignored, %d played again; %s; met of docs/compatibility.md: %s", w.name, seed, played, count, time.Since(began).Round(time.Second), struck, passed, again, list(classes), list(w.met))
}

// mostLate bounds how often a dialogue is played again because PostgreSQL was late.
const mostLate = 3

// late reports whether a difference is that PostgreSQL itself, asked directly, ran into a
// timeout of the client's that Sluice's answer did not: on a busy machine anything takes long.
func late(diff string) bool {
	const timedOut = "C=57014 M=canceling statement due to statement timeout"
	told, direct, _ := strings.Cut(diff, "directly:")
	return !strings.Contains(told, timedOut) && strings.Contains(direct, timedOut)
}

// Only PostgreSQL's own timeouts are late, not those of Sluice.
func TestLate(t *testing.T) {
	const timeout = "  E S=ERROR C=57014 M=canceling statement due to statement timeout\n"
	for diff, want := range map[string]bool{
		"step 3:\n  C SELECT 1\ndirectly:\n" + timeout: true, "step 3:\n" + timeout + "directly:\n  C SELECT 1\n": false,
		"step 3:\n" + timeout + "directly:\n" + timeout: false, "": false,
	} {
		if late(diff) != want {
			t.Errorf("%q: %v", diff, !want)
		}
	}
}

func list(classes map[string]int) string {
	var all []string
	for class, n := range classes {
		all = append(all, fmt.Sprintf("%s %d", class, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// transcript is what Sluice answered.
func transcript(d dialogue, told tale) string {
	var b strings.Builder
	d = d.settled()
	for i, o := range told.outcomes {
		b.WriteString(d.steps[i].String())
		if o.skipped {
			b.WriteString("  (skipped)\n")
		}
		if o.refused != "" {
			fmt.Fprintf(&b, "  %s\n", o.refused)
		}
		for n := o.from; n < o.to; n++ {
			for _, l := range o.c.answers[n].lines {
				fmt.Fprintf(&b, "  %s\n", l)
			}
		}
	}
	return b.String()
}

// shrink makes a dialogue smaller for as long as it still differs.
func (w *world) shrink(d dialogue, diff string) (dialogue, string) {
	w.fresh = true
	defer func() { w.fresh = false }()
	tries := 0
	differs := func(d dialogue) bool {
		if tries++; tries > *shrinkFlag {
			return false
		}
		got, _, err := w.check(d)
		if err != nil || got == "" || ignored(got) || strings.Contains(got, uncaused) != strings.Contains(diff, uncaused) {
			return false
		}
		diff = got
		return true
	}
	if !differs(d) {
		return d, "It does not differ alone, on new backends: something was left by the dialogues before it."
	}
	for changed := true; changed; {
		changed = false
		for _, smaller := range w.smaller(d) {
			if differs(smaller) {
				d, changed = smaller, true
				break
			}
		}
	}
	return d, diff
}

// smaller are the dialogues that lack one part of d, the largest parts first.
func (w *world) smaller(d dialogue) (all []dialogue) {
	n := len(d.steps)
	for size := n / 2; size >= 1; size /= 2 {
		for at := 0; at+size <= n; at += size {
			all = append(all, dialogue{d.fault, slices.Delete(slices.Clone(d.steps), at, at+size)})
		}
	}
	with := func(i int, s step) {
		steps := slices.Clone(d.steps)
		steps[i] = s
		all = append(all, dialogue{d.fault, steps})
	}
	for i, s := range d.steps {
		if s.op == "connect" && s.arg != "" {
			with(i, step{who: s.who, op: s.op, cancel: noCancel})
		}
		for k, f := range s.frames {
			if s.times > 1 || strings.IndexByte("cf", f.verb) >= 0 {
				continue
			}
			if len(s.frames) > 1 {
				t := s
				t.frames = slices.Delete(slices.Clone(s.frames), k, k+1)
				with(i, t)
			}
			for p := range f.parts {
				if len(f.parts) > 1 {
					t := s
					t.frames = slices.Clone(s.frames)
					t.frames[k].parts = slices.Delete(slices.Clone(f.parts), p, p+1)
					with(i, t)
				}
			}
		}
	}
	return all
}
