package rewrite

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Enumerations, which DSQL has not. A domain over text that is held to the values stands for one:
// columns, casts and defaults name it as they would the type. Three things are otherwise, so that
// this is asked for (EnumKey) and warned of: values compare and sort as texts, a value that is none
// of them has the code 23514 and not 22P02, and pg_enum and the functions of enumerations know
// nothing of it. DROP TYPE becomes DROP DOMAIN, since a cluster has no other types of a user's. A value is
// added by the relay (enumvalue.go).

// EnumKey is the configuration key of Rules.Enums.
const EnumKey = "ddl.create_enum"

// domainPolicy is the value of EnumKey that has a domain stand for the type.
const domainPolicy = "domain"

// mostLabel bounds a value of an enumeration, in bytes, as PostgreSQL does (NAMEDATALEN).
const mostLabel = 63

// mostEnumHint bounds the hint for an enumeration; one of more values gets that of all types.
const mostEnumHint = 1000

// domainOf is CREATE DOMAIN for a CREATE TYPE ... AS ENUM, and whether the values as texts are in
// the order of the type; "" where there are no values, which no value would be of.
func domainOf(m parse.Message) (text string, ordered bool) {
	labels := m.Names("vals")
	if len(labels) == 0 {
		return "", false
	}
	var values []string
	for _, label := range labels {
		values = append(values, parse.Literal(label))
	}
	return "CREATE DOMAIN " + typeName(m) + " AS text CHECK (VALUE IN (" + strings.Join(values, ", ") + "))", slices.IsSorted(labels)
}

// typeName is the name of the type that a statement is about, as SQL.
func typeName(m parse.Message) string {
	var name []string
	for _, part := range m.Names("type_name") {
		name = append(name, parse.Identifier(part))
	}
	return strings.Join(name, ".")
}

// enumHint says what to write in the place of CREATE TYPE ... AS ENUM; "" for one that is too long.
func (r *rewriter) enumHint(m parse.Message) string {
	domain, _ := domainOf(m)
	if domain == "" {
		return ""
	}
	text := "Write " + domain + "; or give the column the type text and a CHECK. Values then compare as texts."
	if !r.rules.Enums {
		text += " Or set " + EnumKey + " to " + domainPolicy + ": Sluice then does so."
	}
	if len(text) > mostEnumHint {
		return ""
	}
	return text
}

// alterEnumHint says how a value is added to the domain that stands for an enumeration, or renamed.
func (r *rewriter) alterEnumHint(p *part) string {
	value, old := p.node.Text("new_val"), p.node.Text("old_val")
	ph, hint := r.phrase(p), ""
	switch i := ph.Qualified(2); {
	case ph.Words(i, "rename", "value"):
		hint = renamedByHand(typeName(p.node), old, value)
	case ph.Words(i, "add", "value"):
		if hint = addedByHand(typeName(p.node), value); !r.rules.Enums {
			hint += " Or set " + EnumKey + " to " + domainPolicy + ": Sluice then does so."
		}
	}
	return hint
}

// AnotherDomain says what to do where a domain stands for an enumeration and the server takes no ALTER DOMAIN ...
// ADD CONSTRAINT, as clusters did not in October 2026.
const AnotherDomain = "Make a domain of all values under another name (CREATE DOMAIN), and for each column of the type, each in a transaction of its own: " +
	"a column of that domain; UPDATE, at most 3,000 rows at a time; DROP COLUMN of the old one; RENAME COLUMN."

// addedByHand are the statements by which a value is added: at no moment is a value refused that was
// taken before.
func addedByHand(of, value string) string {
	domain := "ALTER DOMAIN " + of
	return "Where a domain stands for the type, and the server refuses ALTER DOMAIN ... ADD CONSTRAINT, as clusters did in October 2026: " + AnotherDomain + " Else: " + domain + " ADD CONSTRAINT <new name> CHECK (VALUE IN (<the values so far>, " + parse.Literal(value) + ")) NOT VALID; then " + domain + " DROP CONSTRAINT <old name>."
}

// renamedByHand are those by which one is renamed. Rows are written before the old value is refused, and
// once more behind it, since others may have written it meanwhile.
func renamedByHand(of, old, value string) string {
	domain := "ALTER DOMAIN " + of
	return "Where a domain stands for the type, rows hold the value as a text. ALTER TYPE " + of + " ADD VALUE " + parse.Literal(value) + "; for each column of the type (SELECT attrelid::regclass, attname FROM pg_attribute WHERE atttypid = " +
		parse.Literal(of) + "::regtype): UPDATE <table> SET <column> = " + parse.Literal(value) + " WHERE <column> = " + parse.Literal(old) + ", at most 3,000 rows at a time, and its default where that is the old value; then " + domain +
		" ADD CONSTRAINT <new name> CHECK (VALUE IN (<the values but for " + parse.Literal(old) + ">)) NOT VALID; " + domain + " DROP CONSTRAINT <old name>; then the UPDATEs once more. Where the server refuses ALTER DOMAIN ... ADD CONSTRAINT, as clusters did in October 2026: " + AnotherDomain
}

// isEnum reports whether PostgreSQL would make the type: values that it refuses are the server's to
// refuse.
func isEnum(m parse.Message) bool {
	seen := map[string]bool{}
	for _, label := range m.Names("vals") {
		if len(label) > mostLabel || seen[label] {
			return false
		}
		seen[label] = true
	}
	return true
}

// enumeration are the rules of what makes one and changes it.
func (r *rewriter) enumeration(p *part) {
	if p.node.Is("CreateEnumStmt") {
		r.createEnum(p)
	} else {
		r.addValue(p)
	}
}

// createEnum is the rule of CREATE TYPE ... AS ENUM.
func (r *rewriter) createEnum(p *part) {
	text, ordered := domainOf(p.node)
	if !r.rules.Enums || text == "" || !isEnum(p.node) || temporary(p) != "" {
		return
	}
	tree, err := parse.Tree(text)
	if err != nil || len(tree.Values("stmts")) != 1 {
		return
	}
	r.edit(parse.Edit{Start: p.st.Start, End: p.st.End, Text: text})
	r.meant.Set(p.raw, "stmt", tree.Child("stmts").Values("stmt")...)
	names := p.node.Names("type_name")
	detail := "Its values compare and sort as texts, and not in the order of the type."
	if ordered {
		detail = "Its values compare and sort as texts, which is the order of the type."
	}
	p.st.Retag = "CREATE TYPE"
	p.st.Warning = &Notice{"type \"" + names[len(names)-1] + "\" is a domain over text, since DSQL has no enumerations",
		detail + " A value that is none of them has the code 23514."}
	r.find(handled(UserType, Rewritten, Warning, "rewritten to a domain over text with a CHECK: its values compare and sort as texts", p.st.Start))
}

// dropType is the rule of DROP TYPE.
func (r *rewriter) dropType(p *part) {
	ph := r.phrase(p)
	if !r.rules.Enums || !ph.Words(0, "drop", "type") || temporary(p) != "" {
		return
	}
	r.edit(ph.Replace(1, "DOMAIN"))
	r.meant.Set(p.node, "remove_type", sampleDropDomain().Child("stmts").Child("stmt").Values("remove_type")...)
	p.st.Retag = "DROP TYPE"
	if parse.DropBehavior(p.node.Integer("behavior")) == parse.DROP_CASCADE {
		p.st.Hint = "Clusters refuse DROP DOMAIN CASCADE: drop the columns of the type, or their tables, and then the type without CASCADE."
	}
	r.find(handled(UserType, Rewritten, Info, "rewritten to DROP DOMAIN", p.st.Start))
}

var sampleDropDomain = parse.Sample("DROP DOMAIN d")
