package alter

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DSQL has no enumerations. With Rules.Enums, a domain over text with a CHECK replaces an enumeration. Columns, casts
// and defaults name the domain as they would name the enumeration. Three things differ, and the client gets a warning
// about them. Values compare and sort as text. An invalid value has the code 23514, not 22P02. pg_enum and the
// functions for enumerations do not know the domain.
//
// Sluice rewrites DROP TYPE to DROP DOMAIN, because a cluster has no other user types. enumvalue.go adds values.

// EnumKey is the configuration key that enables Rules.Enums.
const EnumKey = "ddl.create_enum"

// DomainPolicy is the value of EnumKey that enables Rules.Enums.
const DomainPolicy = "domain"

// mostLabel is the greatest length in bytes of an enumeration's value, by PostgreSQL's NAMEDATALEN.
const mostLabel = 63

// mostEnumHint is the greatest length in bytes of a hint that contains a CREATE DOMAIN. If the hint would be longer,
// the client gets the general hint about types.
const mostEnumHint = 1000

// enumDomainSQL returns the CREATE DOMAIN that replaces a CREATE TYPE ... AS ENUM, or "" for an enumeration without
// values. ordered reports whether the text order of the values is their declared order.
func enumDomainSQL(m parse.TreeNode) (text string, ordered bool) {
	labels := m.Names("vals")
	if len(labels) == 0 {
		return "", false
	}
	var values []string
	for _, label := range labels {
		values = append(values, parse.QuoteLiteral(label))
	}
	return "CREATE DOMAIN " + typeName(m) + " AS text CHECK (VALUE IN (" + strings.Join(values, ", ") + "))", slices.IsSorted(labels)
}

// typeName returns, as SQL, the name of the type in a CREATE TYPE or ALTER TYPE.
func typeName(m parse.TreeNode) string {
	var name []string
	for _, part := range m.Names("type_name") {
		name = append(name, parse.QuoteIdent(part))
	}
	return strings.Join(name, ".")
}

// CreateEnumHint returns the hint with a refused CREATE TYPE ... AS ENUM, or "" if the hint would be too long.
func (d *Draft) CreateEnumHint() string {
	domain, _ := enumDomainSQL(d.Node)
	if domain == "" {
		return ""
	}
	text := "Write " + domain + "; or give the column the type text and a CHECK. Values then compare as texts."
	if !d.Rules.Enums {
		text += " Or set " + EnumKey + " to " + DomainPolicy + ": Sluice then does so."
	}
	if len(text) > mostEnumHint {
		return ""
	}
	return text
}

// AlterEnumHint returns the hint with a refused ALTER TYPE: how a person adds or renames a value of the domain.
func (d *Draft) AlterEnumHint() string {
	value, old := d.Node.Text("new_val"), d.Node.Text("old_val")
	ph, hint := d.tokens(), ""
	switch i := ph.AfterQualifiedName(2); {
	case ph.AreKeywords(i, "rename", "value"):
		hint = renameValueAdvice(typeName(d.Node), old, value)
	case ph.AreKeywords(i, "add", "value"):
		if hint = addValueAdvice(typeName(d.Node), value); !d.Rules.Enums {
			hint += " Or set " + EnumKey + " to " + DomainPolicy + ": Sluice then does so."
		}
	}
	return hint
}

// AnotherDomain is the advice if a server refuses ALTER DOMAIN ... ADD CONSTRAINT, as clusters did in October 2026. A
// person can then replace the enumeration's domain by a new domain.
const AnotherDomain = "Make a domain of all values under another name (CREATE DOMAIN), and for each column of the type, each in a transaction of its own: " +
	"a column of that domain; UPDATE, at most 3,000 rows at a time; DROP COLUMN of the old one; RENAME COLUMN."

// addValueAdvice returns the advice how a person adds a value to the domain named of. While the person follows the
// steps, the server refuses none of the values that it allowed before.
func addValueAdvice(of, value string) string {
	domain := "ALTER DOMAIN " + of
	return "Where a domain stands for the type, and the server refuses ALTER DOMAIN ... ADD CONSTRAINT, as clusters did in October 2026: " + AnotherDomain + " Else: " + domain + " ADD CONSTRAINT <new name> CHECK (VALUE IN (<the values so far>, " + parse.QuoteLiteral(value) + ")) NOT VALID; then " + domain + " DROP CONSTRAINT <old name>."
}

// renameValueAdvice returns the advice how a person renames a value of the domain named of. The person updates rows
// before the domain refuses the old value, and again after that. In between, other sessions may write the old value.
func renameValueAdvice(of, old, value string) string {
	domain := "ALTER DOMAIN " + of
	return "Where a domain stands for the type, rows hold the value as a text. ALTER TYPE " + of + " ADD VALUE " + parse.QuoteLiteral(value) + "; for each column of the type (SELECT attrelid::regclass, attname FROM pg_attribute WHERE atttypid = " +
		parse.QuoteLiteral(of) + "::regtype): UPDATE <table> SET <column> = " + parse.QuoteLiteral(value) + " WHERE <column> = " + parse.QuoteLiteral(old) + ", at most 3,000 rows at a time, and its default where that is the old value; then " + domain +
		" ADD CONSTRAINT <new name> CHECK (VALUE IN (<the values but for " + parse.QuoteLiteral(old) + ">)) NOT VALID; " + domain + " DROP CONSTRAINT <old name>; then the UPDATEs once more. Where the server refuses ALTER DOMAIN ... ADD CONSTRAINT, as clusters did in October 2026: " + AnotherDomain
}

// isValidEnum reports whether PostgreSQL would accept the enumeration. If not, the server gets the client's CREATE
// TYPE, and refuses it.
func isValidEnum(m parse.TreeNode) bool {
	seen := map[string]bool{}
	for _, label := range m.Names("vals") {
		if len(label) > mostLabel || seen[label] {
			return false
		}
		seen[label] = true
	}
	return true
}

// CreateEnum rewrites CREATE TYPE ... AS ENUM to a CREATE DOMAIN.
func (d *Draft) CreateEnum() {
	text, ordered := enumDomainSQL(d.Node)
	if !d.Rules.Enums || text == "" || !isValidEnum(d.Node) || d.Temporary {
		return
	}
	tree, err := parse.Tree(text)
	if err != nil || len(tree.Values("stmts")) != 1 {
		return
	}
	d.addEdits(parse.Edit{Start: d.Start, End: d.End, Text: text})
	d.Meant.Set(d.Raw, "stmt", tree.Child("stmts").Values("stmt")...)
	names := d.Node.Names("type_name")
	detail := "Its values compare and sort as texts, and not in the order of the type."
	if ordered {
		detail = "Its values compare and sort as texts, which is the order of the type."
	}
	d.ReplacementTag = "CREATE TYPE"
	d.Warning = &Notice{"type \"" + names[len(names)-1] + "\" is a domain over text, since DSQL has no enumerations",
		detail + " A value that is none of them has the code 23514."}
	d.addFinding(finding.Handled(finding.UserType, finding.Rewritten, finding.Warning, "rewritten to a domain over text with a CHECK: its values compare and sort as texts", d.Start))
}

// DropType rewrites DROP TYPE to DROP DOMAIN.
func (d *Draft) DropType() {
	ph := d.tokens()
	if !d.Rules.Enums || !ph.AreKeywords(0, "drop", "type") || d.Temporary {
		return
	}
	d.addEdits(ph.Replace(1, "DOMAIN"))
	d.Meant.Set(d.Node, "remove_type", sampleDropDomain().Child("stmts").Child("stmt").Values("remove_type")...)
	d.ReplacementTag = "DROP TYPE"
	if parse.DropBehavior(d.Node.Integer("behavior")) == parse.DROP_CASCADE {
		d.Hint = "Clusters refuse DROP DOMAIN CASCADE: drop the columns of the type, or their tables, and then the type without CASCADE."
	}
	d.addFinding(finding.Handled(finding.UserType, finding.Rewritten, finding.Info, "rewritten to DROP DOMAIN", d.Start))
}

var sampleDropDomain = parse.LazyTree("DROP DOMAIN d")
