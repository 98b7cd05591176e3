package rewrite

import (
	"iter"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// recordSet records, in the statement's plan, how a SET or RESET changes a setting.
func (st *Statement) recordSet(m parse.TreeNode) {
	c := SettingChange{Name: strings.ToLower(m.Text("name"))}
	local := m.Flag("is_local")
	switch kind := parse.VariableSetKind(m.Integer("kind")); kind {
	case parse.VAR_SET_MULTI:
		st.setTransaction(m, local)
		return
	case parse.VAR_RESET_ALL:
		st.Changes = []SettingChange{{Action: ResetAll}}
		return
	case parse.VAR_SET_VALUE:
		var ok bool
		c.SQL, c.Text, ok = settingValue(m.List("args"))
		if !ok && c.Name == "timezone" {
			c.SQL, ok = zoneOffset(m.List("args"))
		}
		if !ok && !local {
			st.Pin = PinSetConfig
			return
		}
	case parse.VAR_SET_DEFAULT, parse.VAR_RESET:
		c.Action, c.Default = Reset, kind == parse.VAR_SET_DEFAULT
	default: // SET name FROM CURRENT
		st.Pin = PinSetConfig
		return
	}
	if transactionSettings[c.Name] || local {
		c.Action = SetLocal
	}
	st.Changes = []SettingChange{c}
	if c.Action == Set {
		st.Pin = settingPin(c)
	}
}

// transactionSettings are settings of the current transaction. The effect of a SET ends with the transaction, even
// without LOCAL.
var transactionSettings = map[string]bool{
	"transaction_isolation":  true,
	"transaction_read_only":  true,
	"transaction_deferrable": true,
}

// settingPin returns the reason for which a session must keep its backend after the change of a setting, or NoPin.
func settingPin(c SettingChange) PinReason {
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
			return PinTemp // later CREATE statements may create temporary objects
		}
	case "standard_conforming_strings":
		// If backslashes are escapes, string constants may have another meaning than the planner assumes.
		switch strings.ToLower(c.Text) {
		case "on", "true", "yes", "1":
		default:
			return PinSetConfig
		}
	}
	return NoPin
}

// settingValue returns the value of a SET as SQL. text is the value without quotes if the value is a single constant.
// ok is false for a value that PostgreSQL computes, such as INTERVAL '1' HOUR.
func settingValue(args iter.Seq[parse.TreeNode]) (sql, text string, ok bool) {
	var parts []string
	for arg := range args {
		if !arg.Is("A_Const") {
			return "", "", false
		}
		switch {
		case arg.Child("sval").Shape != nil:
			text = arg.Child("sval").Text("sval")
			parts = append(parts, parse.QuoteLiteral(text))
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

// zoneOffset returns the value of `SET TIME ZONE INTERVAL '+05:30' HOUR TO MINUTE` as a string constant. PostgreSQL
// itself stores the text INTERVAL '+05:30'. ok is false for any form other than hours and minutes.
func zoneOffset(args iter.Seq[parse.TreeNode]) (sql string, ok bool) {
	for arg := range args {
		kind, mask := arg.Child("type_name"), 0
		for typmod := range kind.List("typmods") {
			if mask != 0 { // a precision of seconds comes after the mask
				return "", false
			}
			mask = typmod.Child("ival").Integer("ival")
		}
		value := arg.Child("arg").Child("sval").Text("sval")
		if names := kind.Names("names"); !arg.Is("TypeCast") || len(names) == 0 || names[len(names)-1] != "interval" ||
			mask != 0 && mask != hourToMinute || !hoursAndMinutes.MatchString(value) {
			return "", false
		}
		sql = parse.QuoteLiteral("INTERVAL '" + value + "'")
	}
	return sql, sql != ""
}

// hourToMinute is INTERVAL_MASK(HOUR) | INTERVAL_MASK(MINUTE), from PostgreSQL's timestamp.h. It marks HOUR TO MINUTE.
const hourToMinute = 1<<10 | 1<<11

var hoursAndMinutes = regexp.MustCompile(`^[+-]?[0-9]{1,2}:[0-9]{2}$`)
