package proxy

import (
	"sync"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file makes greetings: the ParameterStatus frames that a client gets after its startup. Clients with the same
// startup settings share one greeting.

// greetingLimit is the number of stored greetings. When it is reached, all are dropped.
const greetingLimit = 64

// greeting is the server's parameters as a client gets them.
type greeting struct {
	frames []byte // never changed
	// told has the values in frames, as a shared value. tellParameters later sends parameters that differ from it.
	// Settings that Sluice stores (application_name) are in frames but not in told: appendName sends their changes.
	told *settings.Reports
}

// greetings stores each greeting under the parameters and the startup settings it was made from, compared by pointer.
// The zero value is empty.
type greetings struct {
	mu sync.Mutex
	m  map[greeted]*greeting
}

type greeted struct {
	params  *settings.Reports
	startup *settings.Values
}

// find returns the stored greeting for of, or stores and returns the one that build makes.
func (g *greetings) find(of greeted, build func(greeted) *greeting) *greeting {
	g.mu.Lock()
	defer g.mu.Unlock()
	if kept := g.m[of]; kept != nil {
		return kept
	}
	if g.m == nil || len(g.m) >= greetingLimit {
		g.m = map[greeted]*greeting{}
	}
	made := build(of)
	g.m[of] = made
	return made
}

// greet makes a greeting from the server's parameters, replaced by the values that the client's startup gave.
func (srv *Server) greet(of greeted) *greeting {
	var frames []byte
	told := of.params
	for _, p := range of.params.All {
		if v, ok := of.startup.Shown[p.Lower]; ok {
			p.Value = asReported(of.params, p.Lower, v)
			if was, _ := told.Get(p.Lower); was != p.Value && srv.treat.Of(p.Lower) == settings.Carried {
				told = told.With(p.Name, p.Value)
			}
		}
		frames = wire.AppendStrings(frames, wire.ParameterStatus, p.Name, p.Value)
	}
	return &greeting{frames, srv.sharedReports.Share(told)}
}

// asReported returns a client's value as a server with the given parameters would report it. For example, a server
// completes the DateStyle "DMY" to "ISO, DMY" by its default.
func asReported(params *settings.Reports, name, value string) string {
	if name == "datestyle" {
		reset, _ := params.Get(name)
		usual := settings.ReadDateStyle(settings.DateStyle{}, reset, settings.DateStyle{})
		return settings.ReadDateStyle(usual, value, usual).String()
	}
	return settings.Reported(name, value)
}
