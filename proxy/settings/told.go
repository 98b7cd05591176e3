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

// The values of carried settings as a server shows them: what set_config answers, where the server
// is sent a SET.

// Told is the value that set_config answers for a setting of the server's that is given a value. The
// error is PostgreSQL's for a value that it would refuse, with the name as the client spelt it, or a
// refusal where nobody here knows how the server would show it.
func Told(spelt, value string) (string, *wire.Error) {
	name := strings.ToLower(spelt)
	switch {
	case name == "search_path":
		if _, ok := rewrite.Identifiers(value); !ok {
			e := errInvalidValue(name, value, "")
			e.Detail = "List syntax is invalid."
			return "", e
		}
		return value, nil
	case name == "timezone":
		if zone, ok := zones()[strings.ToLower(value)]; ok {
			return zone, nil
		}
	case name == "datestyle":
		if d, ok := wholeDateStyle(value); ok {
			return d.String(), nil
		}
	case name == "client_encoding":
		if value == "UNICODE" { // which PostgreSQL leaves as it is, for old drivers
			return value, nil
		}
		if shown := Reported(name, value); shown == "UTF8" {
			return shown, nil
		}
	case name == "application_name":
		if len(value) < 64 && printable(value) {
			return value, nil
		}
	case forms[name] != nil, strings.HasPrefix(name, "enable_"), name == "dsql.enable_batched_nestloop", name == "disable_sync_create_index":
		if forms[name] == nil {
			return readBool(nil, spelt, value)
		}
		return forms[name].read(forms[name], spelt, value)
	default: // the role, settings of applications, and what the server does not have
		return value, nil
	}
	return "", &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("set_config() cannot tell how the server shows %q as a value of %q", value, name),
		Hint: "Use SET " + name + " TO ..., which does not answer with the value; or give the value as SHOW tells it."}
}

func printable(value string) bool {
	return strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// wholeDateStyle reads a value that says style and order, each once, and nothing else.
func wholeDateStyle(value string) (DateStyle, bool) {
	words, ok := rewrite.Identifiers(value)
	if !ok || len(words) != 2 {
		return DateStyle{}, false
	}
	a, b := ReadDateStyle(DateStyle{}, words[0], DateStyle{}), ReadDateStyle(DateStyle{}, words[1], DateStyle{})
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

// zones are the names of time zones, as servers show them, by the same in lower case.
var zones = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for name := range strings.FieldsSeq(zoneNames) {
		all[strings.ToLower(name)] = name
	}
	return all
})
