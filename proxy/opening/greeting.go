package opening

import (
	"sync"

	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// greetingLimit is the number of stored greetings at which Greetings drops all of them.
const greetingLimit = 64

// Greeting has the ParameterStatus frames that a client gets after its startup.
type Greeting struct {
	Frames []byte // never changed
	// Parameters has the server's parameters that are in Frames. Settings that Sluice stores (application_name) are only in
	// Frames.
	Parameters *settings.Reports
}

// Greetings stores each greeting by the server's parameters and the startup settings that it was made from. They are
// compared by pointer. The zero value is empty. Several goroutines may use it.
type Greetings struct {
	mu sync.Mutex
	m  map[greetingKey]*Greeting
}

type greetingKey struct {
	params  *settings.Reports
	startup *settings.Values
}

// Find returns the greeting for these server parameters and startup settings. If it is not stored, Find makes it.
func (g *Greetings) Find(shared *serversettings.Shared, params *settings.Reports, startup *settings.Values) *Greeting {
	of := greetingKey{params, startup}
	g.mu.Lock()
	defer g.mu.Unlock()
	if stored := g.m[of]; stored != nil {
		return stored
	}
	if g.m == nil || len(g.m) >= greetingLimit {
		g.m = map[greetingKey]*Greeting{}
	}
	made := NewGreeting(shared, params, startup)
	g.m[of] = made
	return made
}

// NewGreeting makes the ParameterStatus frames for a client from the server's parameters, with the client's values from
// its startup packet instead of the server's.
func NewGreeting(shared *serversettings.Shared, params *settings.Reports, startup *settings.Values) *Greeting {
	var frames []byte
	sent, known := shared.Greeting(params, startup)
	for _, p := range sent {
		frames = wire.AppendStrings(frames, wire.ParameterStatus, p.Name, p.Value)
	}
	return &Greeting{frames, known}
}
