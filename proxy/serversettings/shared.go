package serversettings

import (
	"reflect"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Shared is what all backends of one server have in common. Its methods may be called by all goroutines. Shared must
// not be copied.
type Shared struct {
	postgres bool
	treat    settings.Treatments
	// dialled returns the parameters that the backend dialled last has reported, or nil before the first backend.
	dialled func() map[string]string
	// parameters caches the result of Parameters. usual is the rewrite.ReadingMode of the last lent backend.
	parameters atomic.Pointer[settings.Reports]
	usual      atomic.Uint32
	// parsings is the number of keys of transactions that have changed how SQL is parsed (TxParsing).
	parsings atomic.Uint64
	values   settings.InternTable
	reports  settings.SharedReports
}

// NewShared returns what the backends of a server have in common. postgres says that the server is PostgreSQL and not a
// cluster of DSQL. dialled returns the parameters that the backend dialled last has reported. dialled returns the same
// map until the next backend is dialled.
func NewShared(postgres bool, treat settings.Treatments, dialled func() map[string]string) *Shared {
	return &Shared{postgres: postgres, treat: treat, dialled: dialled}
}

// NewClient returns the settings of a client that has set nothing.
func (v *Shared) NewClient() settings.Client { return settings.NewClient(v.treat, &v.values) }

// Parameters returns the parameters of the backend dialled last, with defaults for those that clients require. The
// result is the same pointer until the next backend is dialled.
func (v *Shared) Parameters() *settings.Reports {
	seen := v.dialled()
	r := v.parameters.Load()
	if r != nil && reflect.ValueOf(r.From).Pointer() == reflect.ValueOf(seen).Pointer() {
		return r
	}
	r = settings.WithDefaults(seen)
	v.parameters.Store(r)
	return r
}

// Greeting returns the parameters that a client gets at its startup. sent are the parameters in the order of params,
// with the startup's values instead of the server's. known has startup values only for settings that backends get.
func (v *Shared) Greeting(params *settings.Reports, startup *settings.Values) (sent []settings.Param, known *settings.Reports) {
	known = params
	for _, p := range params.All {
		if value, ok := startup.Shown[p.Lower]; ok {
			p.Value = reportedValue(params, p.Lower, value)
			if was, _ := known.Get(p.Lower); was != p.Value && v.treat.ForName(p.Lower) == settings.Carried {
				known = known.With(p.Name, p.Value)
			}
		}
		sent = append(sent, p)
	}
	return sent, v.reports.Intern(known)
}

// reportedValue returns a client's value as a server with the given parameters would report it. For example, a server
// completes the DateStyle "DMY" to "ISO, DMY" by its default.
func reportedValue(params *settings.Reports, name, value string) string {
	if name == "datestyle" {
		reset, _ := params.Get(name)
		usual := settings.MergeDateStyle(settings.DateStyle{}, reset, settings.DateStyle{})
		return settings.MergeDateStyle(usual, value, usual).String()
	}
	return settings.ReportedSpelling(name, value)
}

// RecordReading records how a backend read texts (encoding, backslashes) at the start of its connection. All backends
// of a server are assumed to be alike. Most calls find no change and write nothing.
func (v *Shared) RecordReading(b *Backend) {
	if rewrite.ReadingMode(v.usual.Load()) != b.usual {
		v.usual.Store(uint32(b.usual))
	}
}

// ReadingUnder returns how a backend will read texts under the given settings, while the session has no backend.
func (v *Shared) ReadingUnder(of *settings.Values) rewrite.ReadingMode {
	usual := rewrite.ReadingMode(v.usual.Load())
	if of.Recodes {
		return of.Reading | usual&^rewrite.Recoded
	}
	return usual
}

// AllSQL returns the SQL that sets all the given settings on a backend whose settings are reset.
func (v *Shared) AllSQL(of *settings.Values) string {
	return settings.DiffSQL(v.values.NoSettings(), of)
}
