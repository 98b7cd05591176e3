package alter

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Sluice may have replaced an enumeration by a domain with a CHECK (enumeration.go). It then carries out ALTER TYPE ...
// ADD VALUE in two steps: it adds a CHECK with the new value, and then drops the former CHECK. In between, both CHECKs
// hold, so that no invalid value is accepted. The number at the end of a CHECK's name orders the CHECKs of a domain.
//
// Sluice does not carry out RENAME VALUE, because rows store the value as text. A hint lists the statements for it
// (renameValueAdvice).

// EnumValueAddition is an ALTER TYPE ... ADD VALUE that Sluice carries out on a domain.
type EnumValueAddition struct {
	Text      string // the client's statement
	Type      string // the name of the type as SQL
	Value     string // the new value
	Placed    bool   // the statement says BEFORE or AFTER Neighbour
	After     bool
	Neighbour string
	// IfNotExists means that the statement says IF NOT EXISTS: a value that the enumeration already has is no error.
	IfNotExists bool
}

// AddEnumValue plans an ALTER TYPE ... ADD VALUE that Sluice can carry out on a domain. For others it does nothing.
func (d *Draft) AddEnumValue() {
	if !d.Rules.Enums || !d.Rules.Dialect || d.Temporary {
		return
	}
	ph, name := d.tokens(), d.Node.Names("type_name")
	if len(name) > 2 || ph.HasComments() {
		return
	}
	i := ph.AfterQualifiedName(2)
	e := &EnumValueAddition{Text: d.statementText(), Type: typeName(d.Node), Value: d.Node.Text("new_val"), Neighbour: d.Node.Text("new_val_neighbor"),
		After: d.Node.Flag("new_val_is_after"), IfNotExists: d.Node.Flag("skip_if_new_val_exists")}
	if !ph.AreKeywords(i, "add", "value") {
		return
	}
	before := len(ph.Tokens) - 2
	e.Placed = ph.IsKeyword(before, "before") || ph.IsKeyword(before, "after")
	d.Hint = "Send the statement alone outside of a transaction: it is then carried out (" + EnumKey + ")."
	if !d.Alone {
		return
	}
	d.Steps = e
	d.addFinding(finding.Handled(finding.UserType, finding.Rewritten, finding.Info, "carried out in two transactions: the domain gets a CHECK with the value, and loses the one without", d.Start))
}

// TextAndTag implements Steps: it returns the client's ALTER TYPE and its command tag.
func (e *EnumValueAddition) TextAndTag() (text, tag string) { return e.Text, "ALTER TYPE" }

// Bytes implements Steps: it estimates the memory of the plan in bytes.
func (e *EnumValueAddition) Bytes(int) int {
	return int(unsafe.Sizeof(*e)) + len(e.Text) + len(e.Type) + len(e.Value) + len(e.Neighbour)
}

// DomainCheck is a CHECK that restricts a domain to a list of texts.
type DomainCheck struct {
	Name   string
	Values []string
	stem   string // the part of Name before the number at its end
	number int
}

// ParseDomainCheck parses a CHECK as the catalog shows it. It returns nil for a CHECK that is not a list of texts.
func ParseDomainCheck(name, shown string) *DomainCheck {
	text := "ALTER DOMAIN d ADD CONSTRAINT c " + shown
	if !fitsParser(text) {
		return nil
	}
	tree, err := parse.Tree(text)
	if err != nil || len(tree.Values("stmts")) != 1 || !tree.Child("stmts").Child("stmt").Is("AlterDomainStmt") {
		return nil
	}
	check := tree.Child("stmts").Child("stmt").Child("def").Child("raw_expr")
	if !check.Is("A_Expr") || !slices.Equal(check.Names("name"), []string{"="}) || !check.Child("lexpr").Is("ColumnRef") || !slices.Equal(check.Child("lexpr").Names("fields"), []string{"value"}) {
		return nil
	}
	values, ok := textConstants(check)
	if !ok {
		return nil
	}
	d := &DomainCheck{Name: name, Values: values}
	d.stem = strings.TrimRight(name, "0123456789")
	if digits := name[len(d.stem):]; digits != "" {
		if d.number, err = strconv.Atoi(digits); err != nil || digits[0] == '0' || len(digits) > 9 {
			return nil
		}
	}
	return d
}

// textConstants returns the text constants on the right side of a domain's CHECK: a single one, or those of an array.
func textConstants(check parse.TreeNode) (values []string, ok bool) {
	list := []parse.TreeNode{check.Child("rexpr")}
	switch parse.A_Expr_Kind(check.Integer("kind")) {
	case parse.AEXPR_OP:
	case parse.AEXPR_OP_ANY:
		if !list[0].Is("A_ArrayExpr") {
			return nil, false
		}
		list = slices.Collect(list[0].List("elements"))
	default:
		return nil, false
	}
	for _, item := range list {
		if !item.Is("TypeCast") || !slices.Equal(item.Child("type_name").Names("names"), []string{"text"}) || !item.Child("arg").Is("A_Const") {
			return nil, false
		}
		text := item.Child("arg").Child("sval")
		if text.Shape == nil {
			return nil, false
		}
		values = append(values, text.Text("sval"))
	}
	return values, true
}

// NextName returns the name for the CHECK that replaces d. It has the next number.
func (d *DomainCheck) NextName() string {
	number, stem := strconv.Itoa(d.number+1), d.stem
	for len(stem)+len(number) > parse.MaxName {
		_, last := utf8.DecodeLastRuneInString(stem)
		stem = stem[:len(stem)-last]
	}
	return stem + number
}

// NewestDomainCheck returns the CHECK with the greatest number as newest, and all others as old. follows is false if
// newest does not replace the others. If two sessions added values at once, an old CHECK may have a value that newest
// lacks.
func NewestDomainCheck(checks []*DomainCheck) (newest *DomainCheck, old []*DomainCheck, follows bool) {
	checks = slices.Clone(checks)
	slices.SortFunc(checks, func(a, b *DomainCheck) int { return cmp.Compare(a.number, b.number) })
	newest, old = checks[len(checks)-1], checks[:len(checks)-1]
	for _, d := range old {
		if !strings.HasPrefix(d.stem, newest.stem) {
			return newest, old, false
		}
		own := slices.DeleteFunc(slices.Clone(d.Values), func(value string) bool { return slices.Contains(newest.Values, value) })
		if len(own) > 1 {
			return newest, old, false
		}
	}
	return newest, old, true
}

// WithValue returns values with the new value at the place that BEFORE or AFTER gives. Without these, it is at the end.
func (e *EnumValueAddition) WithValue(values []string) []string {
	at := len(values)
	if e.Placed {
		at = slices.Index(values, e.Neighbour)
		if e.After {
			at++
		}
	}
	return slices.Insert(slices.Clone(values), at, e.Value)
}

// TooLong reports whether the new value is longer than PostgreSQL allows for a value of an enumeration.
func (e *EnumValueAddition) TooLong() bool { return len(e.Value) > mostLabel }

// AddCheckSQL returns the statement that adds a CHECK of values to the domain. The server need not check existing rows,
// because values contains all their values.
func (e *EnumValueAddition) AddCheckSQL(name string, values []string) string {
	list := make([]string, len(values))
	for i, value := range values {
		list[i] = parse.QuoteLiteral(value)
	}
	return "ALTER DOMAIN " + e.Type + " ADD CONSTRAINT " + parse.QuoteIdent(name) + " CHECK (VALUE IN (" + strings.Join(list, ", ") + ")) NOT VALID"
}

// DropCheckSQL returns the statement that drops a CHECK of the domain. DropCheckIfExistsSQL does so for a CHECK that
// may not exist.
func (e *EnumValueAddition) DropCheckSQL(name string) string {
	return "ALTER DOMAIN " + e.Type + " DROP CONSTRAINT " + parse.QuoteIdent(name)
}
func (e *EnumValueAddition) DropCheckIfExistsSQL(name string) string {
	return "ALTER DOMAIN " + e.Type + " DROP CONSTRAINT IF EXISTS " + parse.QuoteIdent(name)
}

// Hint returns the hint that lists the statements for adding the new value by hand.
func (e *EnumValueAddition) Hint() string { return addValueAdvice(e.Type, e.Value) }
