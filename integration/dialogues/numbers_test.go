package dialogues

import (
	"regexp"
	"strings"
)

// ownNumbers follows what one client has surely drawn in its block, as far as the
// dialogues' own texts go: there a 55000 of currval and lastval is no difference that
// docs/compatibility.md has.
type ownNumbers struct {
	drawn    map[string]bool   // sequences; "" for any
	prepared map[string]string // texts by the name of the statement
	bound    map[string]string // by the name of the portal
	block    bool              // it was in one when it was told last
}

var (
	drawing = regexp.MustCompile(`^SELECT nextval\('(\w+)'\)$|^INSERT INTO ([ut]_\w) \(n\) VALUES \(\d+\)(?: RETURNING \w+)?$`)
	asking  = regexp.MustCompile(`^SELECT (?:currval\('(\w+)'\)|lastval\(\))$`)
	// harmless texts change neither names nor what was drawn.
	harmless = regexp.MustCompile(`^(SELECT|INSERT INTO|UPDATE|DELETE|BEGIN|START|SAVEPOINT|RELEASE|SHOW|TABLE|$)`)
)

// sure tells whether a client must be answered what frame n of its frames asks: it
// surely drew that in the block, which was not run again on another backend.
func (d dialogue) sure(told tale, at site) bool {
	if d.fault != "" { // run again on another backend
		return false
	}
	again := false
	own := ownNumbers{drawn: map[string]bool{}, prepared: map[string]string{}, bound: map[string]string{}}
	for i, o := range told.outcomes {
		if o.c != at.c {
			again = again || d.steps[i].op == "replace"
			continue
		}
		for n := o.from; n < o.to && n <= at.n; n++ {
			f, a := d.steps[i].frames[n-o.from], o.c.answers[n]
			text := own.text(f)
			if n == at.n {
				m := asking.FindStringSubmatch(text)
				return m != nil && own.drawn[m[1]] && !again
			}
			if own.block && (f.verb == 'Q' || f.verb == 'E') {
				own.ran(text, a)
			}
			if a.ready != 0 {
				if own.block = a.ready == 'T'; !own.block {
					clear(own.drawn)
					again = false
				}
			}
		}
	}
	return false
}

// text is what a frame runs or, of a Bind, is about to run.
func (o *ownNumbers) text(f frame) string {
	switch f.verb {
	case 'Q':
		if len(f.parts) == 1 {
			return f.sql()
		}
		return "several"
	case 'P':
		o.prepared[f.name] = f.sql()
	case 'B':
		o.bound[f.name] = o.prepared[f.from]
		return o.bound[f.name]
	case 'E':
		return o.bound[f.name]
	}
	return ""
}

// ran notes a text that was run.
func (o *ownNumbers) ran(text string, a *answer) {
	if !harmless.MatchString(text) || strings.Contains(text, "set_config") || strings.Contains(text, "f_") || strings.Contains(text, "g_") {
		clear(o.drawn)
		return
	}
	if m := drawing.FindStringSubmatch(text); m != nil && a.code == "" && len(a.lines) > 0 && a.lines[0] != "skipped" {
		o.drawn[""] = true
		switch {
		case m[1] != "":
			o.drawn[m[1]] = true
		case m[2] != "" && m[2][0] == 'u':
			o.drawn[m[2]+"_id_seq"] = true
		}
	}
}
