package settings

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has the values of carried settings (those that backends get) as a server shows them. Sluice answers
// set_config with the value, while the server gets a SET.

// SetConfigResult returns the value that set_config returns when it sets a server's setting to value. For a value
// that PostgreSQL would refuse, the error is PostgreSQL's, with the client's spelling of the name. If Sluice does not
// know how the server shows the value, the error refuses the statement.
func SetConfigResult(spelt, value string) (string, *wire.Error) {
	name := strings.ToLower(spelt)
	switch {
	case name == "search_path":
		if _, ok := rewrite.SplitIdentifiers(value); !ok {
			e := errInvalidValue(name, value, "")
			e.Detail = "List syntax is invalid."
			return "", e
		}
		return value, nil
	case name == "timezone":
		if zone, ok := zoneSpellings()[strings.ToLower(value)]; ok {
			return zone, nil
		}
	case name == "datestyle":
		if d, ok := parseFullDateStyle(value); ok {
			return d.String(), nil
		}
	case name == "client_encoding":
		if value == "UNICODE" { // PostgreSQL leaves it unchanged, for old drivers
			return value, nil
		}
		if shown := ReportedSpelling(name, value); shown == "UTF8" {
			return shown, nil
		}
	case name == "application_name":
		if len(value) < 64 && isPrintable(value) {
			return value, nil
		}
	case valueFormats[name] != nil, strings.HasPrefix(name, "enable_"), name == "dsql.enable_batched_nestloop", name == "disable_sync_create_index":
		if valueFormats[name] == nil {
			return readBool(nil, spelt, value)
		}
		return valueFormats[name].read(valueFormats[name], spelt, value)
	default: // the role, settings of applications, and unknown ones
		return value, nil
	}
	return "", &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("set_config() cannot tell how the server shows %q as a value of %q", value, name),
		Hint: "Use SET " + name + " TO ..., which does not answer with the value; or give the value as SHOW tells it."}
}

func isPrintable(value string) bool {
	return strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// parseFullDateStyle parses a value of DateStyle that has one style and one order. parseFullDateStyle returns false for
// any other value.
func parseFullDateStyle(value string) (DateStyle, bool) {
	words, ok := rewrite.SplitIdentifiers(value)
	if !ok || len(words) != 2 {
		return DateStyle{}, false
	}
	a, b := MergeDateStyle(DateStyle{}, words[0], DateStyle{}), MergeDateStyle(DateStyle{}, words[1], DateStyle{})
	if a.style == "" {
		a, b = b, a
	}
	if b.style != "" || a.style == "" || b.order == "" {
		return DateStyle{}, false
	}
	return DateStyle{a.style, b.order}, true
}

//go:embed timezones.txt
var zoneNames string

// zoneSpellings maps names of time zones in lower case to the spelling that servers report.
var zoneSpellings = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for name := range strings.FieldsSeq(zoneNames) {
		all[strings.ToLower(name)] = name
	}
	return all
})
