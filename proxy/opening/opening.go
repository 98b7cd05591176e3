// Package opening reads a client's startup packet: its settings, and the schema that its database name means. It makes
// the greeting that answers the packet, and names refused startups for metrics. It knows neither sessions nor backends.
//
//	opening.go   the settings of a startup packet
//	errors.go    errors in the client's spelling, metric names of refused startups
//	greeting.go  ParameterStatus frames
package opening

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/options"
	"github.com/sluice-proxy/sluice/proxy/pin"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// A Reader reads the settings of startup packets for one server. Several goroutines may use it.
type Reader struct {
	// Postgres means that the server is a PostgreSQL, and DSQL that it is a cluster of DSQL. A server may be neither.
	Postgres, DSQL bool
	Treat          settings.Treatments
	// Normal returns the normal form of a value of a setting of Sluice, or an error for the client.
	Normal func(name, value string) (string, *wire.Error)
	// Plan plans a text and returns the text's only statement.
	Plan func(sql string) *rewrite.Statement
	// CountRefusal counts a setting that Sluice refuses, and that a server would accept.
	CountRefusal func()
	// Greetings stores the frames that answer startup packets.
	Greetings Greetings
}

// Settings is what a startup packet sets.
type Settings struct {
	// SQL has the values that each backend of the session gets, as SQL. Local has the values that Sluice stores.
	SQL, Local map[string]string
	// Shown has the values as a server reports them, as far as Sluice knows the server's spelling.
	Shown map[string]string
	// Doubts has the values, as SQL, that a server may refuse.
	Doubts map[string]string
	// Ignored lists the names of settings without an effect, in order.
	Ignored []string
	// OptsOut means that the client turns replay off.
	OptsOut bool
}

// Values returns the settings in the form in which sessions hold them.
func (s *Settings) Values() *settings.Values {
	v := settings.NewValues(s.SQL)
	v.StartupLocal, v.Shown = s.Local, s.Shown
	return v
}

// checkedOnly lists settings of a startup packet that servers check but need not apply later. The session has its own
// user, and the startup's transaction ends with the startup.
var checkedOnly = map[string]bool{"session_authorization": true, "transaction_isolation": true, "transaction_read_only": true, "transaction_deferrable": true}

// NamesCheckedByServer returns the sorted names of startup settings that a server only checks, in a transaction rolled
// back.
func NamesCheckedByServer() []string { return slices.Sorted(maps.Keys(checkedOnly)) }

// Read returns the settings of a startup packet. An error goes to the client, and refuses the startup.
func (r *Reader) Read(params map[string]string) (*Settings, error) {
	of := &Settings{SQL: map[string]string{}, Local: map[string]string{}, Shown: map[string]string{}, Doubts: map[string]string{}}
	for name, value := range params {
		if taken, err := r.takeSpecial(of, name, value); err != nil {
			return nil, err
		} else if taken {
			continue
		}
		if err := r.add(of, name, value); err != nil {
			return nil, err
		}
	}
	slices.Sort(of.Ignored)
	return of, nil
}

// add adds a setting to the settings of a startup.
func (r *Reader) add(of *Settings, name, value string) error {
	switch r.Treat.ForSet(name, value) {
	case settings.Own:
		normal, err := r.Normal(name, value)
		if err != nil {
			return err
		}
		of.Local[name] = normal
		return nil
	case settings.Carried:
		sure, refusal := settings.IsAlwaysAccepted(name, value)
		if refusal != nil {
			r.CountRefusal()
			return refusal
		}
		if !sure {
			of.Doubts[name] = settings.StartupSQL(name, value)
		}
		if checkedOnly[name] {
			return nil
		}
		if of.SQL[name] = settings.StartupSQL(name, value); name == "datestyle" { // in the form of merged values
			if d := settings.MergeDateStyle(settings.DateStyle{}, value, settings.DateStyle{}); d != (settings.DateStyle{}) {
				of.SQL[name] = d.SQL()
			}
		}
	case settings.LocalOnly, settings.Ignored:
		if of.Local[name] = value; r.Treat.ForName(name) == settings.Ignored {
			of.Ignored = append(of.Ignored, name)
		}
	case settings.Foreign:
		if name == "default_transaction_isolation" && r.acceptsIsolationLevel(value) {
			return nil
		}
		r.CountRefusal()
		return errRefused(name)
	}
	of.Shown[name] = settings.ReportedSpelling(name, value)
	return nil
}

// takeSpecial handles parameters that the server does not know, or whose values Sluice restricts. taken means that add
// must skip the parameter.
func (r *Reader) takeSpecial(of *Settings, name, value string) (taken bool, err error) {
	switch {
	case name == options.RetrySetting: // the server does not know it
		off, bad := options.ParseRetry(value)
		if bad != nil {
			return false, bad
		}
		of.OptsOut = of.OptsOut || off
		return true, nil
	case name == "standard_conforming_strings":
		shown, refusal := settings.Normalize(name, value)
		if refusal != nil {
			return false, refusal
		}
		if shown == "on" {
			return false, nil
		}
		// A plan would misread backslashes in string literals with standard_conforming_strings off.
		r.CountRefusal()
		return false, &wire.Error{Fatal: true, Code: "0A000", Message: "standard_conforming_strings must be on",
			Hint: "Write strings with backslashes as E'...'."}
	case name == "role" && r.DSQL:
		if !r.isSessionRole(value) {
			r.CountRefusal()
			return false, errRefused(name)
		}
		return true, nil
	case r.Postgres && !settings.IsProxySetting(name):
		return false, errNotAtStartup(name, value)
	}
	return false, nil
}

// isSessionRole reports whether name is the database role of all of Sluice's sessions, or "none".
func (r *Reader) isSessionRole(name string) bool {
	st := r.Plan("SET role TO " + settings.QuoteLiteral(name))
	return name == "none" || st != nil && pin.OnlyResetsRole(st)
}

// acceptsIsolationLevel reports whether Sluice accepts an isolation level in the startup packet. The server's
// transactions must have that level or a stronger one. A startup cannot send the warning of a SET of a weaker level.
func (r *Reader) acceptsIsolationLevel(level string) bool {
	st := r.Plan("SET default_transaction_isolation TO " + settings.QuoteLiteral(level))
	return st != nil && st.Tag != "" && !st.Weakened
}

// InSchema returns the startup parameters for a client whose database name means a schema. It refuses another
// search_path in the client's startup, since tables would be found elsewhere, and several databases would share these
// tables. A returned error goes to the client.
func InSchema(params map[string]string, schema string) (map[string]string, error) {
	name := settings.QuoteIdentifier(schema)
	if own, given := params["search_path"]; given {
		own = strings.TrimSpace(own)
		if own != parse.QuoteIdent(schema) && (name != schema || strings.ToLower(own) != schema) {
			return nil, &wire.Error{Fatal: true, Code: retry.StateUnsupported, Message: "search_path of the startup is not that of the database",
				Detail: "The database name stands for the schema \"" + schema + "\" (listen.databases), and the session begins with that search_path.",
				Hint:   "Leave search_path out of the connection string. The session may SET it."}
		}
	}
	made := map[string]string{"search_path": name}
	for name, value := range params {
		if name != "search_path" {
			made[name] = value
		}
	}
	return made, nil
}
