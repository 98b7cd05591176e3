package proxy

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
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

// quoteName quotes each part of a parameter's name where it must be.
func quoteName(name string) string {
	parts := strings.Split(name, ".")
	for i, p := range parts {
		if p == "" || strings.IndexFunc(p, func(r rune) bool {
			return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
		}) >= 0 || p[0] >= '0' && p[0] <= '9' {
			parts[i] = `"` + strings.ReplaceAll(p, `"`, `""`) + `"`
		}
	}
	return strings.Join(parts, ".")
}

// quoteLiteral writes v as an SQL string constant that means the same whatever
// standard_conforming_strings is.
func quoteLiteral(v string) string {
	quoted := "'" + strings.ReplaceAll(v, "'", "''") + "'"
	if strings.Contains(v, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// internLimit bounds the interned settings. Beyond it all are forgotten, and until they
// are interned anew equal settings compare by value, which is only slower.
const internLimit = 1024

// interned shares equal settings between sessions.
type interned struct {
	mu sync.Mutex
	m  map[string]*settings
}

func (n *interned) share(s *settings) *settings {
	if len(s.vals) == 0 && len(s.kept) == 0 {
		return noSettings
	}
	key := diff(noSettings, s)
	for _, also := range []map[string]string{s.kept, s.shown} {
		key += "\x00"
		for _, name := range slices.Sorted(maps.Keys(also)) {
			key += "\x00" + name + "\x00" + also[name]
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old, ok := n.m[key]; ok {
		return old
	}
	if n.m == nil || len(n.m) >= internLimit {
		n.m = map[string]*settings{}
	}
	n.m[key] = s
	return s
}

// treatment is what becomes of one setting.
type treatment uint8

const (
	// carried settings go to the server and to every backend that serves next.
	carried treatment = iota
	// kept settings are answered locally and enforced by Sluice.
	kept
	// ignored settings are answered locally and have no effect.
	ignored
	// foreign settings go to the server, which refuses them.
	foreign
)

// dsqlSettings is DSQL's allow-list (its documentation, "Supported session
// parameters", 2026), application_name aside.
var dsqlSettings = map[string]bool{
	"client_encoding": true, "datestyle": true, "extra_float_digits": true, "intervalstyle": true,
	"timezone": true, "search_path": true, "enable_bitmapscan": true, "enable_hashjoin": true,
	"enable_indexonlyscan": true, "enable_indexscan": true, "enable_material": true,
	"enable_mergejoin": true, "enable_nestloop": true, "dsql.enable_batched_nestloop": true,
	"enable_seqscan": true, "disable_sync_create_index": true, "role": true,
}

// treatments decides per configuration.
type treatments struct {
	kind    BackendKind
	reapply bool
	ignored map[string]string // the value that is ignored; empty: any
}

func newTreatments(c Config) treatments {
	t := treatments{kind: c.Kind, reapply: c.ReapplyApplicationName, ignored: map[string]string{}}
	for _, entry := range c.IgnoredSettings {
		name, value, _ := strings.Cut(entry, "=")
		t.ignored[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	return t
}

// to is what becomes of setting name to value: where only one value may be
// ignored, others go to the server.
func (t treatments) to(name, value string) treatment {
	how := t.of(name)
	if only := t.ignored[name]; how == ignored && only != "" && !sameValue(value, only) {
		return foreign
	}
	return how
}

// sameValue compares values of a setting as PostgreSQL spells booleans.
func sameValue(a, b string) bool {
	truth := map[string]string{"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}
	norm := func(v string) string {
		v = strings.ToLower(strings.TrimSpace(v))
		if t, ok := truth[v]; ok {
			return t
		}
		return v
	}
	return norm(a) == norm(b)
}

// of is to without a value: for SHOW and RESET.

func (t treatments) of(name string) treatment {
	switch {
	case name == "application_name":
		if t.reapply {
			return carried
		}
		return kept
	case t.kind == Postgres:
		return carried
	case name == "statement_timeout", name == "idle_in_transaction_session_timeout":
		return kept
	case dsqlSettings[name]:
		return carried
	}
	if _, ok := t.ignored[name]; ok {
		return ignored
	}
	return foreign
}

// local reports whether a statement's changes are all answered by Sluice.
func (t treatments) local(st *rewrite.Statement) bool {
	if st.Kind != rewrite.Setting || len(st.Changes) == 0 {
		return false
	}
	for i := range st.Changes {
		c := &st.Changes[i]
		if c.Name == "" {
			return false
		}
		how := t.of(c.Name)
		if c.Action == rewrite.Set || c.Action == rewrite.SetLocal {
			how = t.to(c.Name, c.Text)
		}
		if how == carried || how == foreign {
			return false
		}
	}
	return true
}
