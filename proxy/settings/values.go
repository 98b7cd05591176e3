// Package settings holds what clients have SET as values: the settings of a session, what a
// transaction has staged, what a server reports, and the SQL that brings a backend from
// one set of them to another. Nothing here knows of connections.
//
//	client.go      Client: what one client has SET, through transactions and savepoints
//	kept.go        the part of it that Sluice keeps and no server sees
//	values.go      Values, and Diff between two of them
//	interned.go    Interned, which shares equal Values
//	staged.go      Staged, the changes that a transaction has made
//	reports.go     Reports, the parameters as a server reports them
//	accepted.go    Accepted: settings of startups that a server has taken, and Sure: that any takes
//	treatments.go  Treatments: whether a setting is carried, kept, ignored or foreign
//	datestyle.go   DateStyle, whose values a server merges
//	form.go        how values of kept settings are read and shown
//	told.go        how servers show the values of carried settings
//	literal.go     names and values as SQL
package settings

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Values are the settings of a session. Immutable; interned, so that sessions with the
// same settings share one and compare by pointer.
type Values struct {
	// SQL is the text of each value by the parameter's name, as it may follow "SET name TO".
	SQL map[string]string
	// Parsing are hashes of the values that change what a statement means when
	// it is parsed: literals are folded at Parse.
	Parsing Parsing
	// Shown are the values as a server reports them, by the same names, where that
	// is known; of kept settings too.
	Shown map[string]string
	// Kept are, of a client's startup only, settings that Sluice keeps.
	Kept map[string]string
	// Seen are the reports of a backend that had these settings; nil: none yet.
	Seen atomic.Pointer[Reports]
	// kept is made of Kept; nil: not yet.
	kept atomic.Pointer[kept]
	// Reading is what client_encoding in SQL says of texts; Recodes: it is there.
	Reading rewrite.Reading
	Recodes bool
	bytes   atomic.Int64 // what Bytes says; 0: not counted yet
}

// Parsing are hashes of the settings that a text is parsed under. Settings of a transaction
// that has changed them have odd numbers of its own.
type Parsing struct {
	// All is of all ParsingSettings.
	All uint64
	// Constants are of each of those that constants are read by.
	Constants Constants
}

// Constants are hashes of the values of ConstantSettings, one by one in their order.
type Constants [len(parse.ReaderNames)]uint64

// Unlike returns the settings whose values are not those of others.
func (c Constants) Unlike(others Constants) (by parse.Readers) {
	for i := range c {
		if c[i] != others[i] {
			by |= 1 << i
		}
	}
	return by
}

// Set gives the hash n to some of the settings.
func (c *Constants) Set(by parse.Readers, n uint64) {
	for i := range c {
		if by&(1<<i) != 0 {
			c[i] = n
		}
	}
}

// ParsingSettings change what a prepared statement means, ConstantSettings among them
// what its constants do.
var (
	ConstantSettings = parse.ReaderNames[:]
	ParsingSettings  = slices.Concat(ConstantSettings, []string{"role", "search_path"})
)

var settingsSeed = maphash.MakeSeed()

// New returns Values of SQL texts by the names of their parameters. It keeps the map.
func New(vals map[string]string) *Values {
	s := &Values{SQL: vals}
	if v, ok := vals["client_encoding"]; ok {
		s.Reading, s.Recodes = rewrite.ReadingOf("client_encoding", v), true
	}
	s.Parsing.All = hashOf(vals, ParsingSettings)
	for i := range ConstantSettings {
		s.Parsing.Constants[i] = hashOf(vals, ConstantSettings[i:i+1])
	}
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

// With returns s changed; base holds the values that a reset returns to.
func (s *Values) With(changes []rewrite.Change, base *Values) *Values {
	vals, shown := clone(s.SQL), clone(s.Shown)
	for _, c := range changes {
		switch c.Action {
		case rewrite.Set:
			vals[c.Name], shown[c.Name] = c.SQL, Reported(c.Name, c.Text)
		case rewrite.Reset:
			if v, ok := base.SQL[c.Name]; ok {
				vals[c.Name], shown[c.Name] = v, base.Shown[c.Name]
			} else {
				delete(vals, c.Name)
				delete(shown, c.Name)
			}
		case rewrite.ResetAll:
			role, ok := vals["role"] // stays
			vals, shown = clone(base.SQL), clone(base.Shown)
			if ok {
				vals["role"] = role
			}
		case rewrite.DiscardAll:
			vals, shown = clone(base.SQL), clone(base.Shown)
		}
	}
	made := New(vals)
	made.Shown = shown
	return made
}

// Bytes is about what s takes in memory, beside what is shared by all who have it.
func (s *Values) Bytes() int {
	if n := s.bytes.Load(); n > 0 {
		return int(n)
	}
	n := 1
	for _, vals := range [...]map[string]string{s.SQL, s.Shown, s.Kept} {
		for name, value := range vals {
			n += settingCost + len(name) + len(value)
			if name == "search_path" { // with the names of its schemas
				n += 2 * len(value)
			}
		}
	}
	s.bytes.Store(int64(n))
	return n
}

// settingCost is what a setting takes besides its name and its value, rounded up.
const settingCost = 128

// MostBare is how many bytes a value has at most that Bared leaves as it is.
const MostBare = 1 << 10

// Bared is s without its long values, for a server whose settings nobody needs to know but for what is to
// be set or reset there: such a value differs from every other.
func (s *Values) Bared() *Values {
	if s.Bytes() <= MostBare {
		return s
	}
	vals, shown := clone(s.SQL), clone(s.Shown)
	for name, value := range vals {
		if len(value)+len(shown[name]) > MostBare {
			vals[name] = ""
			delete(shown, name)
		}
	}
	made := New(vals)
	made.Shown = shown
	return made
}

// clone is a copy that may be written to.
func clone(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}

// Equal compares whole maps, the pointers first.
func (s *Values) Equal(o *Values) bool {
	return s == o || maps.Equal(s.SQL, o.SQL)
}

// Diff is the SQL that turns a backend with settings from into one with to, in
// a fixed order. Resets come first: a reset of one name may touch another. So does
// that of a value that the server would merge with the new one.
func Diff(from, to *Values) string {
	var b strings.Builder
	for _, name := range ByRole(from.SQL, -1) {
		if v, ok := to.SQL[name]; !ok || v != from.SQL[name] && Merges(name, v) {
			b.WriteString("RESET ")
			b.WriteString(QuoteName(name))
			b.WriteString("; ")
		}
	}
	for _, name := range ByRole(to.SQL, 1) {
		if v := to.SQL[name]; from.SQL[name] != v {
			b.WriteString("SET ")
			b.WriteString(QuoteName(name))
			b.WriteString(" TO ")
			b.WriteString(v)
			b.WriteString("; ")
		}
	}
	return b.String()
}

// ByRole are the names in order, the role at the end for 1 and at the beginning for
// -1: another role may not be allowed to set what the session's own may.
func ByRole(vals map[string]string, at int) []string {
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
