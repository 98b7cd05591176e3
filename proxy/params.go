package proxy

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

// reports are parameters with the values that a server reports, sorted. Immutable.
type reports struct {
	from map[string]string // the map they were made of
	all  []reportedParam
}

type reportedParam struct{ name, lower, value string }

func newReports(from map[string]string) *reports {
	r := &reports{from: from}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		r.all = append(r.all, reportedParam{name, strings.ToLower(name), from[name]})
	}
	slices.SortFunc(r.all, func(a, b reportedParam) int { return strings.Compare(a.lower, b.lower) })
	return r
}

// get is the value of a parameter by its lower-cased name.
func (r *reports) get(lower string) (value string, ok bool) {
	for i := range r.all {
		if r.all[i].lower == lower {
			return r.all[i].value, true
		}
	}
	return "", false
}

// with is r with another value of one parameter, which may be new.
func (r *reports) with(name, value string) *reports {
	lower := strings.ToLower(name)
	made := &reports{all: slices.Clone(r.all)}
	for i := range made.all {
		if p := &made.all[i]; p.lower == lower {
			p.value = value
			return made
		}
	}
	made.all = append(made.all, reportedParam{name, lower, value})
	slices.SortFunc(made.all, func(a, b reportedParam) int { return strings.Compare(a.lower, b.lower) })
	return made
}

// news are the parameters that are new or have another value in r than in told.
func (r *reports) news(told *reports) (changed []reportedParam) {
	for _, p := range r.all {
		if was, ok := told.get(p.lower); !ok || was != p.value {
			changed = append(changed, p)
		}
	}
	return changed
}

// without is r without a parameter.
func (r *reports) without(lower string) *reports {
	if i := slices.IndexFunc(r.all, func(p reportedParam) bool { return p.lower == lower }); i >= 0 {
		return &reports{all: slices.Delete(slices.Clone(r.all), i, i+1)}
	}
	return r
}

// showing is r with another value of a parameter that it has.
func (r *reports) showing(lower, value string) *reports {
	for _, p := range r.all {
		if p.lower == lower && p.value != value {
			return r.with(p.name, value)
		}
	}
	return r
}

// sharedReports holds equal reports once, so that they compare by pointer.
type sharedReports struct {
	mu sync.Mutex
	m  map[string]*reports
}

func (n *sharedReports) share(r *reports) *reports {
	var key strings.Builder
	for _, p := range r.all {
		key.WriteString(p.lower)
		key.WriteByte(0)
		key.WriteString(p.value)
		key.WriteByte(0)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old, ok := n.m[key.String()]; ok {
		return old
	}
	if n.m == nil || len(n.m) >= internLimit {
		n.m = map[string]*reports{}
	}
	n.m[key.String()] = r
	return r
}

// completed are a server's parameters with those that clients insist on.
func completed(seen map[string]string) *reports {
	params := maps.Clone(defaultParams)
	maps.Copy(params, seen)
	r := newReports(params)
	r.from = seen
	return r
}
