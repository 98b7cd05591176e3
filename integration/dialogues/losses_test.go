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
	conflicts, losses := 0, 0
	switch {
	case told.struck && strings.Contains(d.fault, `"fail"`):
		conflicts = 1
	case told.struck:
		losses = 1
	}
	if w.fresh {
		losses += backends
	}
	for i, o := range told.outcomes {
		if d.steps[i].op == "replace" {
			losses += backends
		}
		losses += strings.Count(d.steps[i].String(), "pg_terminate_backend")
		for n := o.from; n < o.to; n++ {
			text := o.c.answers[n].text()
			switch o.c.answers[n].code {
			case "40001":
				if conflicts--; conflicts < 0 {
					return fmt.Sprintf("step %d: %sa conflict%s: %s", i+1, d.steps[i], uncaused, text)
				}
			case "08006", "08007":
				if strings.Contains(text, "S=FATAL") {
					continue // the end of a session that has lost its state, and was told so
				}
				if losses--; losses < 0 {
					return fmt.Sprintf("step %d: %sa loss%s: %s", i+1, d.steps[i], uncaused, text)
				}
			}
		}
	}
	if conflicts > 0 && strings.Contains(d.String(), "no-retry") && optedOut(d) {
		return "a conflict in a transaction that is not to be run again was not told"
	}
	return ""
}

// stale tells whether frame k of step i may be told that its plan has changed, where
// PostgreSQL has no reason to: DDL of another session came before, and the statement
// was not prepared and described in the same request, which can be run again where
// transactions are. Any other refusal may be.
func (w *world) stale(d dialogue, a *answer, i, k int) bool {
	if !strings.Contains(a.text(), "cached plan") {
		return true
	}
	if readAnew.MatchString(a.text()) {
		return readBefore(d, i, k)
	}
	if !w.changed && !slices.ContainsFunc(d.steps[:i], func(s step) bool { return s.who == "x" && s.op == "sql" }) {
		return false
	}
	frames := d.steps[i].frames
	f := frames[k]
	if f.verb != 'B' {
		return f.verb != 'Q'
	}
	parsed := slices.ContainsFunc(frames[:k], func(p frame) bool { return p.verb == 'P' && p.name == f.from })
	described := slices.ContainsFunc(frames, func(p frame) bool {
		return p.verb == 'D' && (p.kind == 'S' && p.name == f.from || p.kind == 'P' && p.name == f.name)
	})
	return !parsed || !described || !w.replays
}

// readBefore tells whether frame k of step i binds or describes a statement with a constant
// that settings may read otherwise, and its client has changed settings before.
func readBefore(d dialogue, i, k int) bool {
	f := d.steps[i].frames[k]
	name, text, changed := f.from, "", false
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
		for _, f := range frames {
			changed = changed || readSettings.MatchString(f.sql())
			if f.verb == 'P' && f.name == name {
				text = f.sql()
			}
		}
	}
	return changed && readConstant.MatchString(text)
}

var (
	readSettings = regexp.MustCompile(`(?i)\b(SET|RESET|DISCARD|set_config|[gl]_[abc])\b`)
	readConstant = regexp.MustCompile(`(?i)'[^']*(\d|now|today)|[^\x00-\x7f]`)
)

// optedOut tells whether the statement that is to fail is one of a transaction with the
// comment that asks for its conflicts.
func optedOut(d dialogue) bool {
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
			if strings.Contains(f.sql(), "no-retry") {
				return true
			}
			// The statement alone, right behind a BEGIN that says so.
			if k > 0 || i == 0 || d.steps[i-1].who != s.who || len(f.parts) > 1 {
				return false
			}
			before := d.steps[i-1].frames
			return len(before) > 0 && strings.HasPrefix(before[0].sql(), "BEGIN /* sluice: no-retry */") && (len(before) == 1 || before[0].verb == 'P' && len(before) == 4)
		}
	}
	return false
}

// open are the differences that are known and not mended yet: docs/progress.md has each
// with its dialogue. They are counted; -dialogues.open makes them fail.
var open []*regexp.Regexp
