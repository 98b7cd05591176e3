package dialogues

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const uncaused = " that nothing has caused"

// unplanned looks for an error that nothing has caused: a conflict needs one that was
// planned, a lost backend a cut or the replacement of backends. It also wants an error
// where one is due: a transaction that opted out of replay is told its conflict.
func (w *world) unplanned(d dialogue, told tale) string {
	most := w.budget(d, told)
	conflicts, losses := most["40001"], most["08006"]
	due := d.conflictsDue(told)
	if w.fresh {
		losses += backends
	}
	losses += w.ended
	w.ended = 0
	for i, o := range told.outcomes {
		w.ended += max(d.steps[i].ends(), o.ended)
	}
	for i, o := range told.outcomes {
		losses += max(d.steps[i].ends(), o.ended)
		for n := o.from; n < o.to; n++ {
			text := o.c.answers[n].text()
			switch o.c.answers[n].code {
			case "40001", "25000":
				due--
				if w.parts && strings.Contains(text, "OC001") && (ddlBehind(d, told, i) || strings.Contains(text, notAgain+"a statement of the transaction had failed")) {
					continue // the tables of the dialogue before were dropped, and Sluice itself refuses a statement of the group
				}
				if conflicts--; conflicts < 0 {
					return fmt.Sprintf("step %d: %sa conflict%s: %s", i+1, d.steps[i], uncaused, text)
				}
			case "08006", "08007":
				if strings.Contains(text, "S=FATAL") {
					continue // the end of a session that has lost its state, and was told so
				}
				if losses--; losses+endsAhead(d, told, i) < 0 {
					return fmt.Sprintf("step %d: %sa loss%s: %s", i+1, d.steps[i], uncaused, text)
				}
			case "53300":
				if most["53300"]--; most["53300"] < 0 {
					return fmt.Sprintf("step %d: %sa refusal%s: %s", i+1, d.steps[i], uncaused, text)
				}
			}
		}
	}
	if due > 0 && strings.Contains(d.String(), "no-retry") && optedOut(d, told) {
		return "a conflict in a transaction that is not to be run again was not told"
	}
	return ""
}

// conflictsDue is how many conflicts at clients' statements have happened.
func (d dialogue) conflictsDue(told tale) (n int) {
	for _, f := range d.faults() {
		if told.struck && f.Question == "" && f.Action == "fail" {
			n++
		}
	}
	return n
}

// endsAhead is how many backends may end behind step i until its turn is over: what was
// not asked for by a Sync may be answered until then.
func endsAhead(d dialogue, told tale, i int) (n int) {
	for k, o := range told.outcomes[i:] {
		if k > 0 {
			n += d.steps[i+k].ends()
		}
		if o.c == told.outcomes[i].c && o.ready {
			break
		}
	}
	return n
}

// ends is how many backends a step may end.
func (s step) ends() int {
	if s.op == "replace" {
		return backends
	}
	return strings.Count(s.String(), "pg_terminate_backend")
}

// stale tells whether frame k of step i may be told that its plan has changed, where
// PostgreSQL has no reason to: DDL of another session came before, and the statement
// was not prepared and described in the same request, which can be run again where
// transactions are and no block is. Any other refusal may be.
func (w *world) stale(d dialogue, told tale, i, k int) bool {
	a := told.outcomes[i].c.answers[told.outcomes[i].from+k]
	if readAnew.MatchString(a.text()) {
		return readBefore(d, i, k)
	}
	if theirs.MatchString(a.text()) { // a text of which a cluster refuses something else is sent as a whole
		return !alone(told, i) || strings.Contains(a.text(), "H=It is sent as one transaction since DSQL refuses statement")
	}
	if !strings.Contains(a.text(), "cached plan") {
		return true
	}
	if !w.ddlBefore(d, i) {
		return false
	}
	if strings.Contains(a.text(), notAgain) && d.plansAt("schema", told) {
		return true
	}
	frames := d.steps[i].frames
	f := frames[k]
	if f.verb != 'B' {
		return f.verb != 'Q'
	}
	o := told.outcomes[i]
	inBlock := o.from > 0 && o.c.answers[o.from-1].ready == 'T' // which is not always to be run again
	parsed := slices.ContainsFunc(frames[:k], func(p frame) bool { return p.verb == 'P' && p.name == f.from })
	described := false
	for _, p := range frames[k+1:] {
		if p.verb == 'B' && p.name == f.name {
			break
		}
		described = described || p.verb == 'D' && p.kind == 'P' && p.name == f.name
	}
	for _, p := range slices.Backward(frames[:k]) {
		if p.verb == 'P' && p.name == f.from {
			break
		}
		described = described || p.verb == 'D' && p.kind == 'S' && p.name == f.from
	}
	ended := slices.ContainsFunc(frames[:k], func(p frame) bool { return endsBlock.MatchString(p.sql()) })
	return !parsed || !described || !w.replays || inBlock || ended
}

// notAgain is in an error whose request was not run again: where the schema that it needs could not be read, for one.
const notAgain = "D=Replay refused: "

// plansAt reports whether a fault at that question was planned, and any at a question has happened.
func (d dialogue) plansAt(question string, told tale) bool {
	return told.struckAt && slices.ContainsFunc(d.faults(), func(f planned) bool { return f.Question == question })
}

// renew finds the Bind of a step that PostgreSQL refused because DDL elsewhere has changed
// the result, and that Sluice ran on a backend that had the statement from behind it: its
// client was never told of columns, so it prepares the statement anew in the direct run.
func (w *world) renew(d dialogue, told tale, i int, direct *client, anew map[site]frame) {
	o := told.outcomes[i]
	for n := o.from; n < o.to; n++ {
		f := d.steps[i].frames[n-o.from]
		if f.verb != 'B' || hasError(o.c.answers[n].lines, "") || !staleError(direct.answers[n].lines) || !w.ddlBefore(d, i) {
			continue
		}
		if again, ok := undescribed(d, told, i, n-o.from); ok {
			w.met[staleRow]++
			anew[site{o.c, n}] = again
		}
		return
	}
}

// undescribed is the Parse of the statement that frame k of step i binds, if no Describe
// came since.
func undescribed(d dialogue, told tale, i, k int) (parse frame, ok bool) {
	name, portals := d.steps[i].frames[k].from, map[string]bool{}
	for n, s := range d.steps[:i+1] {
		o := told.outcomes[n]
		if o.c != told.outcomes[i].c {
			continue
		}
		frames := s.frames[:o.to-o.from]
		if n == i {
			frames = frames[:k]
		}
		for m, f := range frames {
			switch a := o.c.answers[o.from+m]; {
			case a.code != "" || a.text() == "skipped":
			case f.verb == 'P' && f.name == name:
				parse, ok = f, true
			case f.verb == 'B':
				portals[f.name] = f.from == name
			case f.verb == 'D' && (f.kind == 'S' && f.name == name || f.kind == 'P' && portals[f.name]):
				ok = false
			}
		}
	}
	return parse, ok
}

func staleError(lines []string) bool {
	return slices.ContainsFunc(lines, func(l string) bool {
		return strings.Contains(l, "cached plan must not change result type")
	})
}

// forgotten tells whether a function has deallocated statements before frame k of step i,
// and the group may have an error of Sluice's own, with which nothing is run again.
func forgotten(d dialogue, i, k int) bool {
	return slices.ContainsFunc(d.steps[:i], func(s step) bool { return strings.Contains(s.String(), " z_") }) &&
		slices.ContainsFunc(d.steps[i].frames[k:], func(f frame) bool { return f.verb == 'B' && f.from != "" })
}

// chains tells whether frame k of step i says AND CHAIN, or binds or describes a statement of
// its client's that does.
func chains(d dialogue, i, k int) bool {
	says := func(f frame) bool { return strings.Contains(f.sql(), "AND CHAIN") }
	f := d.steps[i].frames[k]
	name := f.from
	switch {
	case f.verb == 'D' && f.kind == 'S':
		name = f.name
	case f.verb != 'B':
		return says(f)
	}
	return slices.ContainsFunc(d.steps[:i+1], func(s step) bool {
		return s.who == d.steps[i].who && slices.ContainsFunc(s.frames, func(f frame) bool { return f.verb == 'P' && f.name == name && says(f) })
	})
}

// ddlBefore tells whether another session has changed tables before step i.
func (w *world) ddlBefore(d dialogue, i int) bool {
	return w.changed || slices.ContainsFunc(d.steps[:i], func(s step) bool { return s.who == "x" && s.op == "sql" })
}

// readBefore tells whether frame k of step i binds or describes a statement with a constant
// that settings may read otherwise, and its client has changed settings before, or has called a function in the
// pipeline of the Parse, which may have.
func readBefore(d dialogue, i, k int) bool {
	f := d.steps[i].frames[k]
	name, constant, changed := f.from, false, false
	if f.verb == 'D' {
		name = f.name
	}
	if f.verb != 'B' && (f.verb != 'D' || f.kind != 'S') {
		return false
	}
	for n, s := range d.steps[:i+1] {
		if s.who != d.steps[i].who {
			continue
		}
		frames := s.frames
		if n == i {
			frames = frames[:k]
		}
		called := false
		for _, f := range frames {
			called = called || callsOwn.MatchString(f.sql())
			changed = changed || readSettings.MatchString(f.sql())
			if f.verb == 'P' && f.name == name { // any of them: the server may have refused a later one
				constant = constant || readConstant.MatchString(f.sql())
				changed = changed || called
			}
		}
	}
	return changed && constant
}

var (
	readSettings = regexp.MustCompile(`(?i)\b(SET|RESET|DISCARD|set_config|[gl]_[abc])\b`)
	callsOwn     = regexp.MustCompile(`\b[fghlqz]_[abc]\(`)
	readConstant = regexp.MustCompile(`(?i)'[^']*(\d|now|today)|[^\x00-\x7f]`)
)

// endsBlock is a statement behind which nothing is run again.
var endsBlock = regexp.MustCompile(`^(END|COMMIT|ROLLBACK|ABORT)\b`)

// optedOut tells whether the statement that is to fail is one of a transaction with the
// comment that asks for its conflicts.
func optedOut(d dialogue, told tale) bool {
	_, marker, ok := strings.Cut(d.fault, `"contains":"`)
	marker, _, _ = strings.Cut(marker, `"`)
	if !ok {
		return false
	}
	for i, s := range d.steps {
		for k, f := range s.frames {
			if !strings.Contains(f.sql(), marker) {
				continue
			}
			o := told.outcomes[i]
			if !o.skipped && slices.ContainsFunc(o.c.answers[o.from:o.to], func(a *answer) bool { return a.code == "08006" || a.code == "08007" }) {
				return false // the answer with the conflict was lost
			}
			if strings.Contains(f.sql(), "no-retry") {
				return true
			}
			// The statement alone, right behind a BEGIN that says so.
			if k > 0 || i == 0 || d.steps[i-1].who != s.who || len(f.parts) > 1 {
				return false
			}
			before := d.steps[i-1].frames
			if o := told.outcomes[i-1]; o.skipped || o.to > o.from && o.c.answers[o.from].text() == "skipped" {
				return false
			}
			return len(before) > 0 && strings.HasPrefix(before[0].sql(), "BEGIN /* sluice: no-retry */") && (len(before) == 1 || before[0].verb == 'P' && len(before) == 4)
		}
	}
	return false
}

// open are the differences that are known and not mended yet. They are counted; -dialogues.open makes them fail.
var open []*regexp.Regexp
