package rewrite

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// ALTER TYPE ... ADD VALUE of an enumeration for which a domain stands (enumeration.go). The relay adds
// another CHECK, with the value, and drops the one that stands: until then both hold, so that at no moment
// a value is taken that is in neither. The CHECKs of a domain are told apart by the number at the end of
// their names: each has the next of the one that it was made of. No value is renamed: rows hold it as a
// text, and would have to be written: a hint has the statements (renamedByHand).

// EnumValue is such a statement.
type EnumValue struct {
	Text      string // the statement
	Type      string // its type, as SQL
	Value     string // that is added
	Placed    bool   // before or after another value
	After     bool
	Neighbour string
	// IfNotExists: a value that is there is no error.
	IfNotExists bool
}

// addValue is the rule of ALTER TYPE ... ADD VALUE.
func (r *rewriter) addValue(p *part) {
	if !r.rules.Enums || !r.rules.Dialect || temporary(p) != "" {
		return
	}
	ph, name := r.phrase(p), p.node.Names("type_name")
	if len(name) > 2 || ph.Commented() {
		return
	}
	i := ph.Qualified(2)
	e := &EnumValue{Text: string(r.text[p.st.Start:p.st.End]), Type: typeName(p.node), Value: p.node.Text("new_val"), Neighbour: p.node.Text("new_val_neighbor"),
		After: p.node.Flag("new_val_is_after"), IfNotExists: p.node.Flag("skip_if_new_val_exists")}
	if !ph.Words(i, "add", "value") {
		return
	}
	before := len(ph.Tokens) - 2
	e.Placed = ph.Word(before, "before") || ph.Word(before, "after")
	p.st.Hint = "Send the statement alone outside of a transaction: it is then carried out (" + EnumKey + ")."
	if len(r.parts) > 1 {
		return
	}
	p.st.Does, p.st.EnumValue = Alters, e
	r.find(handled(UserType, Rewritten, Info, "carried out in two transactions: the domain gets a CHECK with the value, and loses the one without", p.st.Start))
}

// DomainValues is a CHECK of a domain that holds it to a list of texts.
type DomainValues struct {
	Name   string
	Values []string
	stem   string // the name without the number at its end
	number int
}

// ReadDomainValues reads a CHECK as the catalog shows it; nil for any other.
func ReadDomainValues(name, shown string) *DomainValues {
	text := "ALTER DOMAIN d ADD CONSTRAINT c " + shown
	if Defaults().guard([]byte(text)) != parse.Fits {
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
	values, ok := textsOf(check)
	if !ok {
		return nil
	}
	d := &DomainValues{Name: name, Values: values}
	d.stem = strings.TrimRight(name, "0123456789")
	if digits := name[len(d.stem):]; digits != "" {
		if d.number, err = strconv.Atoi(digits); err != nil || digits[0] == '0' || len(digits) > 9 {
			return nil
		}
	}
	return d
}

// textsOf are the constants that a comparison has, one or a list.
func textsOf(check parse.Message) (values []string, ok bool) {
	list := []parse.Message{check.Child("rexpr")}
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

// Next is the name of the CHECK that takes the place of this one.
func (d *DomainValues) Next() string {
	number, stem := strconv.Itoa(d.number+1), d.stem
	for len(stem)+len(number) > parse.MaxName {
		_, last := utf8.DecodeLastRuneInString(stem)
		stem = stem[:len(stem)-last]
	}
	return stem + number
}

// NewestValues is the CHECK that was made last, and those that it takes the place of. false: they have not
// been made of one another. One that was made late, of a CHECK that others had replaced by then, has one
// value that the newest has not.
func NewestValues(checks []*DomainValues) (newest *DomainValues, old []*DomainValues, follows bool) {
	checks = slices.Clone(checks)
	slices.SortFunc(checks, func(a, b *DomainValues) int { return cmp.Compare(a.number, b.number) })
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

// With are the values with that of the statement, in the order of the type.
func (e *EnumValue) With(values []string) []string {
	at := len(values)
	if e.Placed {
		at = slices.Index(values, e.Neighbour)
		if e.After {
			at++
		}
	}
	return slices.Insert(slices.Clone(values), at, e.Value)
}

// TooLong reports a value that PostgreSQL takes for none.
func (e *EnumValue) TooLong() bool { return len(e.Value) > mostLabel }

// Add gives the domain a CHECK of that name. Rows are not looked at: all that they hold is taken.
func (e *EnumValue) Add(name string, values []string) string {
	list := make([]string, len(values))
	for i, value := range values {
		list[i] = parse.Literal(value)
	}
	return "ALTER DOMAIN " + e.Type + " ADD CONSTRAINT " + parse.Identifier(name) + " CHECK (VALUE IN (" + strings.Join(list, ", ") + ")) NOT VALID"
}

// Drop takes a CHECK from the domain, and DropAny one that need not be there.
func (e *EnumValue) Drop(name string) string {
	return "ALTER DOMAIN " + e.Type + " DROP CONSTRAINT " + parse.Identifier(name)
}
func (e *EnumValue) DropAny(name string) string {
	return "ALTER DOMAIN " + e.Type + " DROP CONSTRAINT IF EXISTS " + parse.Identifier(name)
}

// Hint says how the value is added by hand.
func (e *EnumValue) Hint() string { return addedByHand(e.Type, e.Value) }
