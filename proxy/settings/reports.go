package settings

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// defaultParams are the parameters that stock clients require in the startup. The defaults are used until a backend has
// reported its own parameters. The values are DSQL's (recorded from a cluster, 2026-09).
var defaultParams = map[string]string{
	"server_version": "16.15", "server_encoding": "UTF8", "client_encoding": "UTF8",
	"standard_conforming_strings": "on", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres",
	"TimeZone": "UTC", "integer_datetimes": "on", "is_superuser": "off",
	"session_authorization": "admin", "application_name": "", "default_transaction_read_only": "off",
	"in_hot_standby": "off",
}

// Reports are the parameters that a server reports (ParameterStatus), with their values, sorted by name. Reports are
// immutable.
type Reports struct {
	From map[string]string // the source map
	All  []Param
}

// Param is one parameter with its name in the server's spelling, its name in lower case, and its value.
type Param struct{ Name, Lower, Value string }

// NewReports returns the Reports of a map from names to values. Their field From has the map, for comparison.
func NewReports(from map[string]string) *Reports {
	r := &Reports{From: from}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		r.All = append(r.All, Param{name, strings.ToLower(name), from[name]})
	}
	slices.SortFunc(r.All, func(a, b Param) int { return strings.Compare(a.Lower, b.Lower) })
	return r
}

// Get returns the value of a parameter by its name in lower case.
func (r *Reports) Get(lower string) (value string, ok bool) {
	for i := range r.All {
		if r.All[i].Lower == lower {
			return r.All[i].Value, true
		}
	}
	return "", false
}

// With returns Reports in which one parameter has another value. r may lack the parameter.
func (r *Reports) With(name, value string) *Reports {
	lower := strings.ToLower(name)
	made := &Reports{All: slices.Clone(r.All)}
	for i := range made.All {
		if p := &made.All[i]; p.Lower == lower {
			p.Value = value
			return made
		}
	}
	made.All = append(made.All, Param{name, lower, value})
	slices.SortFunc(made.All, func(a, b Param) int { return strings.Compare(a.Lower, b.Lower) })
	return made
}

// ChangedSince returns the parameters of r that are missing in told, or have another value there.
func (r *Reports) ChangedSince(told *Reports) (changed []Param) {
	for _, p := range r.All {
		if was, ok := told.Get(p.Lower); !ok || was != p.Value {
			changed = append(changed, p)
		}
	}
	return changed
}

// Without returns Reports that lack one parameter.
func (r *Reports) Without(lower string) *Reports {
	if i := slices.IndexFunc(r.All, func(p Param) bool { return p.Lower == lower }); i >= 0 {
		return &Reports{All: slices.Delete(slices.Clone(r.All), i, i+1)}
	}
	return r
}

// WithExisting returns Reports in which a parameter has another value. If r lacks the parameter, WithExisting returns
// r.
func (r *Reports) WithExisting(lower, value string) *Reports {
	for _, p := range r.All {
		if p.Lower == lower && p.Value != value {
			return r.With(p.Name, value)
		}
	}
	return r
}

// SharedReports shares equal Reports, so that they compare by pointer.
type SharedReports struct {
	mu  sync.Mutex
	m   map[string]*Reports
	key []byte // buffer of the last key, guarded by mu
}

// Bytes returns the approximate memory of the Reports.
func (r *Reports) Bytes() (n int) {
	for i := range r.All {
		n += settingCost + len(r.All[i].Value)
	}
	return n
}

// Intern returns the shared Reports that are equal to r. If r is too long to be shared, Intern returns r.
func (n *SharedReports) Intern(r *Reports) *Reports {
	if r.Bytes() > 2*mostInterned {
		return r
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if cap(n.key) > reusedKey {
		n.key = nil
	}
	n.key = n.key[:0]
	for _, p := range r.All {
		n.key = appendString(appendString(n.key, p.Lower), p.Value)
	}
	if old, ok := n.m[string(n.key)]; ok {
		return old
	}
	if n.m == nil || len(n.m) >= internLimit {
		n.m = map[string]*Reports{}
	}
	n.m[string(n.key)] = r
	return r
}

// WithDefaults returns the Reports of a server, with defaults for parameters that clients require and seen lacks.
func WithDefaults(seen map[string]string) *Reports {
	params := maps.Clone(defaultParams)
	maps.Copy(params, seen)
	r := NewReports(params)
	r.From = seen
	return r
}
