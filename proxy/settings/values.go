// Package settings holds the values that clients have SET: a session's settings, the changes of a transaction, a
// server's reports, and the SQL that changes a backend's settings to others. The package knows no connections.
//
//	client.go      Client: the settings of one client, through transactions and savepoints
//	local.go       its local part, which no server sees
//	values.go      Values, and DiffSQL between two of them
//	interned.go    InternTable, which shares equal Values
//	staged.go      Staged, the changes of a transaction
//	reports.go     Reports, the parameters that a server reports
//	accepted.go    AcceptedCache: settings of startups that a server has accepted; IsAlwaysAccepted: that any accepts
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

// Values are the settings of a session. Values are immutable and interned, so that sessions with the same settings
// share them and compare by pointer.
type Values struct {
	// SQL maps a setting's name to its value as it may follow "SET name TO".
	SQL map[string]string
	// Parsing has hashes of the values that affect the parsing of a statement, because the server folds literals at Parse.
	Parsing ParsingHashes
	// Shown maps a setting's name to its value in a server's spelling, if known. Shown also has Sluice-local settings.
	Shown map[string]string
	// StartupLocal has the values of those settings in a client's startup that no server sees, by name.
	StartupLocal map[string]string
	// Seen are the parameters that a backend with these settings has reported, or nil for none yet.
	Seen atomic.Pointer[Reports]
	// local has the settings of StartupLocal in parsed form. It is nil until it is needed.
	local atomic.Pointer[localValues]
	// Reading says how texts are read under the client_encoding in SQL. Recodes says that SQL has a client_encoding.
	Reading rewrite.ReadingMode
	Recodes bool
	bytes   atomic.Int64 // result of Bytes; 0 for not counted yet
}

// ParsingHashes has hashes of the settings that affect the parsing of a statement. A transaction that has changed
// these settings has odd numbers of its own instead.
type ParsingHashes struct {
	// All is the hash of the values of all ParsingSettings.
	All uint64
	// Constants are the hashes of the values that affect how constants are read.
	Constants ConstantHashes
}

// ConstantHashes are hashes of the values of ConstantSettings, in the same order.
type ConstantHashes [len(parse.InputSettingNames)]uint64

// Differing returns the settings whose hashes in c and in others differ.
func (c ConstantHashes) Differing(others ConstantHashes) (by parse.InputSettings) {
	for i := range c {
		if c[i] != others[i] {
			by |= 1 << i
		}
	}
	return by
}

// SetHashes sets the hashes of the settings in by to n.
func (c *ConstantHashes) SetHashes(by parse.InputSettings, n uint64) {
	for i := range c {
		if by&(1<<i) != 0 {
			c[i] = n
		}
	}
}

// ParsingSettings are the settings that affect the meaning of a prepared statement. ConstantSettings are those among
// them that affect its constants.
var (
	ConstantSettings = parse.InputSettingNames[:]
	ParsingSettings  = slices.Concat(ConstantSettings, []string{"role", "search_path"})
)

var settingsSeed = maphash.MakeSeed()

// NewValues returns Values for a map from names to SQL texts. The Values retain the map.
func NewValues(vals map[string]string) *Values {
	s := &Values{SQL: vals}
	if v, ok := vals["client_encoding"]; ok {
		s.Reading, s.Recodes = rewrite.ReadingModeFor("client_encoding", v), true
	}
	if s.Parsing.All = hashValues(vals, ParsingSettings); s.Parsing.All == 0 {
		return s // no ConstantSettings are set either
	}
	for i := range ConstantSettings {
		s.Parsing.Constants[i] = hashValues(vals, ConstantSettings[i:i+1])
	}
	return s
}

// hashValues returns an even hash of the values of some settings, or 0 if none of them is set.
func hashValues(vals map[string]string, names []string) uint64 {
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

// WithChanges returns s with changes applied. A RESET returns to the value in base.
func (s *Values) WithChanges(changes []rewrite.SettingChange, base *Values) *Values {
	vals, shown := cloneMap(s.SQL), cloneMap(s.Shown)
	for _, c := range changes {
		switch c.Action {
		case rewrite.Set:
			vals[c.Name], shown[c.Name] = c.SQL, ReportedSpelling(c.Name, c.Text)
		case rewrite.Reset:
			if v, ok := base.SQL[c.Name]; ok {
				vals[c.Name], shown[c.Name] = v, base.Shown[c.Name]
			} else {
				delete(vals, c.Name)
				delete(shown, c.Name)
			}
		case rewrite.ResetAll:
			role, ok := vals["role"] // the role stays
			vals, shown = cloneMap(base.SQL), cloneMap(base.Shown)
			if ok {
				vals["role"] = role
			}
		case rewrite.DiscardAll:
			vals, shown = cloneMap(base.SQL), cloneMap(base.Shown)
		}
	}
	made := NewValues(vals)
	made.Shown = shown
	return made
}

// Bytes returns the approximate memory of s, without data that other Values share.
func (s *Values) Bytes() int {
	if n := s.bytes.Load(); n > 0 {
		return int(n)
	}
	n := 1
	for _, vals := range [...]map[string]string{s.SQL, s.Shown, s.StartupLocal} {
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

// settingCost is the memory of a setting without its name and its value, rounded up.
const settingCost = 128

// MaxBareValue bounds the length of a value that Values.WithoutLongValues retains.
const MaxBareValue = 1 << 10

// WithoutLongValues returns s without its long values. The result is for a backend whose settings matter only for later
// SET and RESET. A removed value differs from every other value.
func (s *Values) WithoutLongValues() *Values {
	if s.Bytes() <= MaxBareValue {
		return s
	}
	vals, shown := cloneMap(s.SQL), cloneMap(s.Shown)
	for name, value := range vals {
		if len(value)+len(shown[name]) > MaxBareValue {
			vals[name] = ""
			delete(shown, name)
		}
	}
	made := NewValues(vals)
	made.Shown = shown
	return made
}

// cloneMap returns a copy of m that may be changed, even if m is nil.
func cloneMap(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}

// Equal reports whether two Values have the same SQL. Equal compares the pointers first.
func (s *Values) Equal(o *Values) bool {
	return s == o || maps.Equal(s.SQL, o.SQL)
}

// DiffSQL returns the SQL that replaces a backend's settings (from) by others (to), in a fixed order. RESETs come
// first, because a RESET may affect other settings. A value that the server would merge with its old value is reset
// too.
func DiffSQL(from, to *Values) string {
	var b strings.Builder
	for _, name := range OrderByRole(from.SQL, -1) {
		if v, ok := to.SQL[name]; !ok || v != from.SQL[name] && IsMergedByServer(name, v) {
			b.WriteString("RESET ")
			b.WriteString(QuoteName(name))
			b.WriteString("; ")
		}
	}
	for _, name := range OrderByRole(to.SQL, 1) {
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

// OrderByRole returns the names in vals, sorted, with role last if at is 1, and first if at is -1. Another role may
// not be allowed to set the same settings.
func OrderByRole(vals map[string]string, at int) []string {
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
