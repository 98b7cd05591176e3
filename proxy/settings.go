package proxy

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/rewrite"
)

// settings maps a parameter's name to the SQL text of its value, as it may
// follow "SET name TO". Immutable; interned, so that sessions with the same
// settings share one and compare by pointer.
type settings struct {
	vals map[string]string
	// parsing are hashes of the values that change what a statement means when
	// it is parsed: literals are folded at Parse.
	parsing parsing
	// shown are the values as a server reports them, by the same names, where that
	// is known; of kept settings too.
	shown map[string]string
	// kept are, of a client's startup only, settings that Sluice keeps.
	kept map[string]string
	// seen are the reports of a backend that had these settings; nil: none yet.
	seen atomic.Pointer[reports]
	// reading is what client_encoding among vals says of texts; recodes: it is there.
	reading rewrite.Reading
	recodes bool
}

// parsing are hashes of the settings that a text is parsed under. Settings of a transaction
// that has changed them have odd numbers of its own.
type parsing struct {
	all       uint64
	constants uint64 // of those that constants are read by
}

// parsingSettings change what a prepared statement means, constantSettings among them
// what its constants do.
var (
	constantSettings = []string{"client_encoding", "datestyle", "intervalstyle", "timezone"}
	parsingSettings  = slices.Concat(constantSettings, []string{"role", "search_path"})
)

var (
	settingsSeed = maphash.MakeSeed()
	noSettings   = &settings{}
)

func newSettings(vals map[string]string) *settings {
	s := &settings{vals: vals}
	if v, ok := vals["client_encoding"]; ok {
		s.reading, s.recodes = rewrite.ReadingOf("client_encoding", v), true
	}
	s.parsing = parsing{all: hashOf(vals, parsingSettings), constants: hashOf(vals, constantSettings)}
	return s
}

// hashOf is a hash of some of the values, even; 0 where there is none of them.
func hashOf(vals map[string]string, names []string) uint64 {
	var h maphash.Hash
	h.SetSeed(settingsSeed)
	some := false
	for _, name := range names {
		if v, ok := vals[name]; ok {
			h.WriteString(name)
			h.WriteByte(0)
			h.WriteString(v)
			h.WriteByte(0)
			some = true
		}
	}
	if !some {
		return 0
	}
	return h.Sum64() &^ 1 // odd ones belong to transactions
}

// with returns s changed; base holds the values that a reset returns to.
func (s *settings) with(changes []rewrite.Change, base *settings) *settings {
	vals, shown := clone(s.vals), clone(s.shown)
	for _, c := range changes {
		switch c.Action {
		case rewrite.Set:
			vals[c.Name], shown[c.Name] = c.SQL, asReported(c.Name, c.Text)
		case rewrite.Reset:
			if v, ok := base.vals[c.Name]; ok {
				vals[c.Name], shown[c.Name] = v, base.shown[c.Name]
			} else {
				delete(vals, c.Name)
				delete(shown, c.Name)
			}
		case rewrite.ResetAll:
			role, ok := vals["role"] // stays
			vals, shown = clone(base.vals), clone(base.shown)
			if ok {
				vals["role"] = role
			}
		case rewrite.DiscardAll:
			vals, shown = clone(base.vals), clone(base.shown)
		}
	}
	made := newSettings(vals)
	made.shown = shown
	return made
}

// clone is a copy that may be written to.
func clone(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}

// equal compares whole maps, the pointers first.
func (s *settings) equal(o *settings) bool {
	return s == o || maps.Equal(s.vals, o.vals)
}

// diff is the SQL that turns a backend with settings from into one with to, in
// a fixed order. Resets come first: a reset of one name may touch another. So does
// that of a value that the server would merge with the new one.
func diff(from, to *settings) string {
	var b strings.Builder
	for _, name := range byRole(from.vals, -1) {
		if v, ok := to.vals[name]; !ok || v != from.vals[name] && merges(name, v) {
			b.WriteString("RESET ")
			b.WriteString(quoteName(name))
			b.WriteString("; ")
		}
	}
	for _, name := range byRole(to.vals, 1) {
		if v := to.vals[name]; from.vals[name] != v {
			b.WriteString("SET ")
			b.WriteString(quoteName(name))
			b.WriteString(" TO ")
			b.WriteString(v)
			b.WriteString("; ")
		}
	}
	return b.String()
}

// byRole are the names in order, the role at the end for 1 and at the beginning for
// -1: another role may not be allowed to set what the session's own may.
func byRole(vals map[string]string, at int) []string {
	place := func(name string) int {
		if name == "role" {
			return at
		}
		return 0
	}
	return slices.SortedFunc(maps.Keys(vals), func(a, b string) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
	})
}
