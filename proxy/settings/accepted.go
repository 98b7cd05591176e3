package settings

import (
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// IsAlwaysAccepted reports whether every server accepts the value for a setting in a client's startup, so that Sluice
// need not ask one. For a list setting (search_path, say), a malformed list returns PostgreSQL's error.
func IsAlwaysAccepted(name, value string) (bool, *wire.Error) {
	if rewrite.ListSettings[name] {
		if _, list := rewrite.SplitIdentifiers(value); !list {
			e := errInvalidValue(name, value, "")
			e.Detail = "List syntax is invalid."
			return false, e
		}
	}
	switch name {
	case "search_path", "datestyle", "client_encoding", "intervalstyle", "extra_float_digits", "application_name":
		_, err := SetConfigResult(name, value)
		return err == nil, nil
	case "timezone":
		return value == "UTC" || value == "GMT", nil
	}
	return false, nil
}

// AcceptedCache remembers for a while the settings of startups that a server has accepted, by the SQL that sets them.
// Beyond its bounds, AcceptedCache forgets all entries, and Sluice asks servers again. The zero AcceptedCache is
// empty. AcceptedCache is safe for concurrent use.
type AcceptedCache struct {
	mu sync.Mutex
	m  map[string]AcceptedEntry
}

// AcceptedEntry is an entry of AcceptedCache: the time at which a server accepted settings, and the parameters that the
// server reports differently with them.
type AcceptedEntry struct {
	At    time.Time
	Shown []Param
}

// These constants bound the number of entries of an AcceptedCache and the length of their SQL.
const (
	mostAccepted   = 256
	mostAcceptedIn = 1 << 10 // bytes of one text
)

// Find returns the entry for the SQL of settings, or the zero AcceptedEntry.
func (a *AcceptedCache) Find(sql string) AcceptedEntry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.m[sql]
}

// Add records that a server has accepted the settings that sql sets.
func (a *AcceptedCache) Add(sql string, taken AcceptedEntry) {
	if len(sql) > mostAcceptedIn {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.m == nil || len(a.m) >= mostAccepted {
		a.m = map[string]AcceptedEntry{}
	}
	a.m[sql] = taken
}

// Forget removes all entries. Sluice calls it after a server has refused the settings of another startup.
func (a *AcceptedCache) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.m = nil
}
