package proxy

import (
	"sync"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// What a client is told of the server's parameters when it has been let in. It is the same for all
// whose startup gave the same settings, and is made once for them.

// greetingLimit is how many greetings are kept. Beyond it all are forgotten, and made anew.
const greetingLimit = 64

// greeting are the parameters as a client is told them.
type greeting struct {
	frames []byte // nobody changes them
	// told is what the client is told of the server, as one value of its own: tellParameters later
	// tells what differs from it. A setting that Sluice keeps (application_name) is told too, and
	// is no part of told: appendName tells of its changes.
	told *settings.Reports
}

// greetings are kept by what they are made of: both are shared, and compare by pointer. The zero
// value is empty.
type greetings struct {
	mu sync.Mutex
	m  map[greeted]*greeting
}

type greeted struct {
	params  *settings.Reports
	startup *settings.Values
}

// find returns a greeting, which it has made where there is none.
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

// greet makes a greeting: the server's parameters, with the values that the client's startup gave in
// their place.
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

// asReported is a value of the client's as a server would report it, whose own parameters are
// params. DateStyle is the one that a server merges with its default, where the client has given
// only a half.
func asReported(params *settings.Reports, name, value string) string {
	if name == "datestyle" {
		reset, _ := params.Get(name)
		usual := settings.ReadDateStyle(settings.DateStyle{}, reset, settings.DateStyle{})
		return settings.ReadDateStyle(usual, value, usual).String()
	}
	return settings.Reported(name, value)
}
