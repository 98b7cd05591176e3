// Package settings holds the values that clients have SET: a session's settings, the changes of a
// transaction, a server's reports, and the SQL that changes a backend's settings to others. It
// knows no connections.
//
//	client.go      Client: the settings of one client, through transactions and savepoints
//	local.go       its local part, which no server sees
//	values.go      Values, and Diff between two of them
//	interned.go    Interned, which shares equal Values
//	staged.go      Staged, the changes of a transaction
//	reports.go     Reports, the parameters that a server reports
//	accepted.go    Accepted: settings of startups that a server has accepted; Sure: that any accepts
//	treatments.go  Treatments: whether a setting is carried, local, ignored or foreign
//	datestyle.go   DateStyle, whose values a server merges
//	form.go        parsing and showing of local values
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

// Values are the settings of a session. They are immutable and interned, so that sessions with the
// same settings share them and compare by pointer.
type Values struct {
	// SQL is the text of each value by the parameter's name, as it may follow "SET name TO".
	SQL map[string]string
	// Parsing are hashes of the values that affect the parsing of a statement: literals are folded
	// at Parse.
	Parsing Parsing
	// Shown are the values in a server's spelling, by the same names, as far as it is known; also
	// of local settings.
	Shown map[string]string
	// Kept are the local settings of a client's startup.
	Kept map[string]string
	// Seen are the reports of a backend with these settings; nil for none yet.
	Seen atomic.Pointer[Reports]
	// local is made of Kept; nil for not yet.
	local atomic.Pointer[localValues]
	// Reading is the reading of texts by client_encoding in SQL; Recodes says that SQL has it.
	Reading rewrite.Reading
	Recodes bool
	bytes   atomic.Int64 // result of Bytes; 0 for not counted yet
}

// Parsing are hashes of the settings that affect parsing. A transaction that has changed them has
// its own odd numbers.
type Parsing struct {
	// All is the hash of all ParsingSettings.
	All uint64
	// Constants are the hashes of the settings that affect the reading of constants.
	Constants Constants
}

// Constants are hashes of the values of ConstantSettings, in their order.
type Constants [len(parse.ReaderNames)]uint64

// Unlike returns the settings whose values differ.
func (c Constants) Unlike(others Constants) (by parse.Readers) {
	for i := range c {
		if c[i] != others[i] {
			by |= 1 << i
		}
	}
	return by
}

// Set sets the hash of some settings to n.
func (c *Constants) Set(by parse.Readers, n uint64) {
	for i := range c {
		if by&(1<<i) != 0 {
			c[i] = n
		}
	}
}

// ParsingSettings affect the meaning of a prepared statement. ConstantSettings, among them, affect
// its constants.
var (
	ConstantSettings = parse.ReaderNames[:]
	ParsingSettings  = slices.Concat(ConstantSettings, []string{"role", "search_path"})
)

var settingsSeed = maphash.MakeSeed()

// New returns Values of SQL texts by parameter name. It retains the map.
func New(vals map[string]string) *Values {
	s := &Values{SQL: vals}
	if v, ok := vals["client_encoding"]; ok {
		s.Reading, s.Recodes = rewrite.ReadingOf("client_encoding", v), true
	}
	if s.Parsing.All = hashOf(vals, ParsingSettings); s.Parsing.All == 0 {
		return s // there is none of those either
	}
	for i := range ConstantSettings {
		s.Parsing.Constants[i] = hashOf(vals, ConstantSettings[i:i+1])
	}
	return s
}

// hashOf returns an even hash of some of the values, 0 if none is set.
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
	return h.Sum64() &^ 1 // odd hashes belong to transactions
}

// With returns s with changes. Resets return to base.
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
			role, ok := vals["role"] // the role stays
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

// Bytes returns the approximate memory of s, without data that is shared.
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

// settingCost is the memory of a setting besides its name and its value, rounded up.
const settingCost = 128

// MostBare bounds a value that Bared retains.
const MostBare = 1 << 10

// Bared returns s without its long values. It is for a server whose settings matter only for later
// SET and RESET: a removed value differs from every other.
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

// clone returns a writable copy.
func clone(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}

// Equal compares the pointers first, then the maps.
func (s *Values) Equal(o *Values) bool {
	return s == o || maps.Equal(s.SQL, o.SQL)
}

// Diff returns the SQL that changes a backend's settings from from to to, in a fixed order. Resets
// come first, because one may affect other names. A value that the server would merge is reset too.
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

// ByRole returns the names in order, with the role last for 1 and first for -1. Another role may
// not be allowed to set the same settings.
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
