package proxy

import (
	"sync"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file makes greetings: the ParameterStatus frames that a client gets after its startup. Clients with the same
// startup settings share one greeting.

// greetingLimit is the number of stored greetings (ParameterStatus frames) at which all of them are dropped.
const greetingLimit = 64

// startupGreeting is the ParameterStatus frames that a client gets after its startup.
type startupGreeting struct {
	frames []byte // never changed
	// sentParameters has the server's parameters that are in frames. reportParameters later sends parameters that differ
	// from it. Settings that Sluice stores (application_name) are only in frames, and appendParameterStatus sends changes.
	sentParameters *settings.Reports
}

// greetingCache stores each greeting (ParameterStatus frames) by the server's parameters and the startup settings that
// it was made from. Keys are compared by pointer. The zero value is empty.
type greetingCache struct {
	mu sync.Mutex
	m  map[greetingKey]*startupGreeting
}

type greetingKey struct {
	params  *settings.Reports
	startup *settings.Values
}

// findOrBuild returns the stored greeting for of. If there is none, it calls build, and stores and returns the result.
func (g *greetingCache) findOrBuild(of greetingKey, build func(greetingKey) *startupGreeting) *startupGreeting {
	g.mu.Lock()
	defer g.mu.Unlock()
	if kept := g.m[of]; kept != nil {
		return kept
	}
	if g.m == nil || len(g.m) >= greetingLimit {
		g.m = map[greetingKey]*startupGreeting{}
	}
	made := build(of)
	g.m[of] = made
	return made
}

// buildGreeting makes the ParameterStatus frames for a client from the server's parameters, with the client's values
// from its startup packet instead of the server's.
func (srv *Server) buildGreeting(of greetingKey) *startupGreeting {
	var frames []byte
	sent, known := srv.settings.Greeting(of.params, of.startup)
	for _, p := range sent {
		frames = wire.AppendStrings(frames, wire.ParameterStatus, p.Name, p.Value)
	}
	return &startupGreeting{frames, known}
}
