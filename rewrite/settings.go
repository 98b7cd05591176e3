package rewrite

import (
	"iter"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// set reads SET and RESET.
func (st *Statement) set(m parse.Message) {
	c := Change{Name: strings.ToLower(m.Text("name"))}
	local := m.Flag("is_local")
	switch kind := parse.VariableSetKind(m.Integer("kind")); kind {
	case parse.VAR_SET_MULTI:
		st.setTransaction(m, local)
		return
	case parse.VAR_RESET_ALL:
		st.Changes = []Change{{Action: ResetAll}}
		return
	case parse.VAR_SET_VALUE:
		var ok bool
		c.SQL, c.Text, ok = values(m.List("args"))
		if !ok && c.Name == "timezone" {
			c.SQL, ok = offset(m.List("args"))
		}
		if !ok && !local {
			st.Pin = PinSetConfig
			return
		}
	case parse.VAR_SET_DEFAULT, parse.VAR_RESET:
		c.Action, c.Default = Reset, kind == parse.VAR_SET_DEFAULT
	default: // FROM CURRENT
		st.Pin = PinSetConfig
		return
	}
	if transactional[c.Name] || local {
		c.Action = SetLocal
	}
	st.Changes = []Change{c}
	if c.Action == Set {
		st.Pin = pinOf(c)
	}
}

// transactional settings are those of the transaction that runs: SET without
// LOCAL ends with it all the same.
var transactional = map[string]bool{
	"transaction_isolation":  true,
	"transaction_read_only":  true,
	"transaction_deferrable": true,
}

// pinOf is the reason why a setting cannot be carried to another backend.
func pinOf(c Change) Pin {
	switch c.Name {
	case "role":
		if c.Text == "none" {
			return NoPin
		}
		return PinRole
	case "session_authorization":
		return PinRole
	case "seed":
		return PinSeed
	case "search_path":
		if strings.Contains(c.SQL, "pg_temp") {
			return PinTemp // what is created next may be temporary
		}
	case "standard_conforming_strings":
		// With strings that escape, texts mean something else than is read here.
		switch strings.ToLower(c.Text) {
		case "on", "true", "yes", "1":
		default:
			return PinSetConfig
		}
	}
	return NoPin
}

// values writes the value of a setting, which may be a list, as SQL again; text
// is its plain form when it is one constant. ok is false when it is something
// that PostgreSQL computes: SET TIME ZONE INTERVAL '1' HOUR.
func values(args iter.Seq[parse.Message]) (sql, text string, ok bool) {
	var parts []string
	for arg := range args {
		if !arg.Is("A_Const") {
			return "", "", false
		}
		switch {
		case arg.Child("sval").Shape != nil:
			text = arg.Child("sval").Text("sval")
			parts = append(parts, parse.Literal(text))
		case arg.Child("ival").Shape != nil:
			text = strconv.Itoa(arg.Child("ival").Integer("ival"))
			parts = append(parts, text)
		case arg.Child("fval").Shape != nil:
			text = arg.Child("fval").Text("fval")
			parts = append(parts, text)
		default:
			return "", "", false
		}
	}
	if len(parts) != 1 {
		text = ""
	}
	return strings.Join(parts, ", "), text, len(parts) > 0
}

// offset is SET TIME ZONE INTERVAL '+05:30' HOUR TO MINUTE, the qualifier or none, as a value:
// PostgreSQL itself makes such a text of the interval, and reads it. Of another form than hours
// and minutes the server would have to be asked.
func offset(args iter.Seq[parse.Message]) (sql string, ok bool) {
	for arg := range args {
		kind, mask := arg.Child("type_name"), 0
		for typmod := range kind.List("typmods") {
			if mask != 0 { // a precision of seconds stands behind the mask
				return "", false
			}
			mask = typmod.Child("ival").Integer("ival")
		}
		value := arg.Child("arg").Child("sval").Text("sval")
		if names := kind.Names("names"); !arg.Is("TypeCast") || len(names) == 0 || names[len(names)-1] != "interval" ||
			mask != 0 && mask != hourToMinute || !hoursAndMinutes.MatchString(value) {
			return "", false
		}
		sql = parse.Literal("INTERVAL '" + value + "'")
	}
	return sql, sql != ""
}

// hourToMinute is INTERVAL_MASK(HOUR) | INTERVAL_MASK(MINUTE) of PostgreSQL's timestamp.h.
const hourToMinute = 1<<10 | 1<<11

var hoursAndMinutes = regexp.MustCompile(`^[+-]?[0-9]{1,2}:[0-9]{2}$`)
