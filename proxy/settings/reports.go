package settings

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// defaultParams are what stock clients insist on, until a backend was seen.
// DSQL's own values (recorded from a cluster, 2026-09).
var defaultParams = map[string]string{
	"server_version": "16.15", "server_encoding": "UTF8", "client_encoding": "UTF8",
	"standard_conforming_strings": "on", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres",
	"TimeZone": "UTC", "integer_datetimes": "on", "is_superuser": "off",
	"session_authorization": "admin", "application_name": "", "default_transaction_read_only": "off",
	"in_hot_standby": "off",
}

// Reports are parameters with the values that a server reports, sorted. Immutable.
type Reports struct {
	From map[string]string // the map they were made of
	All  []Param
}

// Param is one parameter: its name as the server spells it and in lower case.
type Param struct{ Name, Lower, Value string }

// NewReports returns the reports of a map, which it keeps to be recognised by.
func NewReports(from map[string]string) *Reports {
	r := &Reports{From: from}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		r.All = append(r.All, Param{name, strings.ToLower(name), from[name]})
	}
	slices.SortFunc(r.All, func(a, b Param) int { return strings.Compare(a.Lower, b.Lower) })
	return r
}

// Get is the value of a parameter by its lower-cased name.
func (r *Reports) Get(lower string) (value string, ok bool) {
	for i := range r.All {
		if r.All[i].Lower == lower {
			return r.All[i].Value, true
		}
	}
	return "", false
}

// With is r with another value of one parameter, which may be new.
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

// News are the parameters that are new or have another value in r than in told.
func (r *Reports) News(told *Reports) (changed []Param) {
	for _, p := range r.All {
		if was, ok := told.Get(p.Lower); !ok || was != p.Value {
			changed = append(changed, p)
		}
	}
	return changed
}

// Without is r without a parameter.
func (r *Reports) Without(lower string) *Reports {
	if i := slices.IndexFunc(r.All, func(p Param) bool { return p.Lower == lower }); i >= 0 {
		return &Reports{All: slices.Delete(slices.Clone(r.All), i, i+1)}
	}
	return r
}

// Showing is r with another value of a parameter that it has.
func (r *Reports) Showing(lower, value string) *Reports {
	for _, p := range r.All {
		if p.Lower == lower && p.Value != value {
			return r.With(p.Name, value)
		}
	}
	return r
}

// SharedReports holds equal reports once, so that they compare by pointer.
type SharedReports struct {
	mu  sync.Mutex
	m   map[string]*Reports
	key []byte // the last one that was made, guarded by mu too
}

// Bytes is about what r takes in memory.
func (r *Reports) Bytes() (n int) {
	for i := range r.All {
		n += settingCost + len(r.All[i].Value)
	}
	return n
}

// Share returns the one Reports that is equal to r for all who ask, where r is not too long; else r.
func (n *SharedReports) Share(r *Reports) *Reports {
	if r.Bytes() > 2*mostInterned {
		return r
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if cap(n.key) > keptKey {
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

// Completed are a server's parameters with those that clients insist on.
func Completed(seen map[string]string) *Reports {
	params := maps.Clone(defaultParams)
	maps.Copy(params, seen)
	r := NewReports(params)
	r.From = seen
	return r
}
