package rewrite

import (
	"iter"
	"strconv"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// set reads SET and RESET.
func (st *Statement) set(m message) {
	c := Change{Name: strings.ToLower(m.text("name"))}
	local := m.flag("is_local")
	switch kind := pg_query.VariableSetKind(m.integer("kind")); kind {
	case pg_query.VariableSetKind_VAR_SET_MULTI:
		st.setTransaction(m, local)
		return
	case pg_query.VariableSetKind_VAR_RESET_ALL:
		st.Changes = []Change{{Action: ResetAll}}
		return
	case pg_query.VariableSetKind_VAR_SET_VALUE:
		var ok bool
		c.SQL, c.Text, ok = values(m.list("args"))
		if !ok && !local {
			st.Pin = PinSetConfig
			return
		}
	case pg_query.VariableSetKind_VAR_SET_DEFAULT, pg_query.VariableSetKind_VAR_RESET:
		c.Action = Reset
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
func values(args iter.Seq[message]) (sql, text string, ok bool) {
	var parts []string
	for arg := range args {
		if !arg.is("A_Const") {
			return "", "", false
		}
		switch {
		case arg.child("sval").shape != nil:
			text = arg.child("sval").text("sval")
			parts = append(parts, literal(text))
		case arg.child("ival").shape != nil:
			text = strconv.Itoa(arg.child("ival").integer("ival"))
			parts = append(parts, text)
		case arg.child("fval").shape != nil:
			text = arg.child("fval").text("fval")
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

// literal quotes a string so that it means the same whatever
// standard_conforming_strings says.
func literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// setTransaction reads SET TRANSACTION and SET SESSION CHARACTERISTICS.
func (st *Statement) setTransaction(m message, local bool) {
	switch m.text("name") {
	case "SESSION CHARACTERISTICS":
		st.Tx.Verb = SetSessionCharacteristics
		st.Tx.options(m.list("args"))
		action := Set
		if local {
			action = SetLocal
		}
		for option := range m.list("args") {
			st.Changes = append(st.Changes, characteristic(option, action))
		}
	case "TRANSACTION SNAPSHOT":
		st.Kind = Control
		st.Tx.Verb = SetTransaction
		_, st.Tx.Snapshot, _ = values(m.list("args"))
	default:
		st.Kind = Control
		st.Tx.Verb = SetTransaction
		st.Tx.options(m.list("args"))
	}
}

// characteristic is the setting behind an option of SET SESSION CHARACTERISTICS.
func characteristic(option message, action Action) Change {
	arg := option.child("arg")
	text := arg.child("sval").text("sval")
	if text == "" {
		text = "off"
		if arg.child("ival").integer("ival") != 0 {
			text = "on"
		}
	}
	return Change{Action: action, Name: "default_" + option.text("defname"), SQL: literal(text), Text: text}
}

// options reads the modes of a transaction.
func (t *Transaction) options(options iter.Seq[message]) {
	for option := range options {
		arg := option.child("arg")
		on := arg.child("ival").integer("ival") != 0
		switch option.text("defname") {
		case "transaction_isolation":
			t.Isolation = isolations[arg.child("sval").text("sval")]
		case "transaction_read_only":
			t.ReadOnly, t.ReadWrite = t.ReadOnly || on, t.ReadWrite || !on
		case "transaction_deferrable":
			t.Deferrable = true
		}
	}
}

var isolations = map[string]Isolation{
	"read uncommitted": ReadUncommitted,
	"read committed":   ReadCommitted,
	"repeatable read":  RepeatableRead,
	"serializable":     Serializable,
}
