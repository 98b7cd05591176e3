package rewrite

import (
	"fmt"
	"strconv"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// Columns of type numeric without a precision. A cluster stores such a column as numeric(18,6), and
// rounds without a word what has more digits. PostgreSQL stores every digit.

// NumericKey is the configuration key of Rules.Numeric.
const NumericKey = "rewrite.numeric"

// Values of NumericKey beside a precision and a scale.
const (
	NumericWide = "wide"
	NumericAsIs = "as-is"
)

// WideNumeric is the precision and scale of NumericWide, in decimal digits. 38 digits behind the point
// hold a quotient of decimal128 arithmetic (34 digits) and 10^-18 coins. 90 in front of it hold a number of
// 256 bits (78 digits); a larger number is an error (22003). In a key it takes 72 of the 2,000 bytes.
const WideNumeric = "128,38"

// mostNumericDigits is the largest precision that clusters take since 2026-08-25.
const mostNumericDigits = 1000

// NumericDigits returns what a value of NumericKey puts behind the name of the type: "(128,38)", or ""
// for NumericAsIs. An error says what a value may be.
func NumericDigits(value string) (string, error) {
	switch value {
	case NumericAsIs:
		return "", nil
	case NumericWide:
		value = WideNumeric
	}
	before, behind, _ := strings.Cut(value, ",")
	precision, err := strconv.Atoi(strings.TrimSpace(before))
	scale, err2 := strconv.Atoi(strings.TrimSpace(behind))
	if err != nil || err2 != nil || precision < 1 || precision > mostNumericDigits || scale < 0 || scale > precision {
		return "", fmt.Errorf("want %s, %s, or precision and scale such as 38,10, with a precision of at most %d", NumericWide, NumericAsIs, mostNumericDigits)
	}
	return fmt.Sprintf("(%d,%d)", precision, scale), nil
}

// numeric is the rule of columns and domains of type numeric without a precision.
func (r *rewriter) numeric(p *part) {
	if r.rules.Numeric == "" && !r.rules.Dialect {
		return
	}
	for _, kind := range bareNumerics(p.node) {
		at := kind.integer("location")
		if r.rules.Numeric == "" {
			rounds := handled(BareNumeric, Flagged, Warning, "passes unchanged, and the cluster rounds to six digits behind the point", at)
			r.find(rounds)
			continue
		}
		ph := r.phrase(p)
		i := ph.at(at)
		if i < 0 {
			return
		}
		r.edit(ph.precise(i, r.rules.Numeric))
		r.meant.set(kind, "typmods", columnOf("numeric"+r.rules.Numeric).child("type_name").values("typmods")...)
		r.find(handled(BareNumeric, Rewritten, Warning, "rewritten to numeric with a precision and a scale: values are shown with that many digits behind the point, and rounded beyond", at))
	}
	r.widenSteps(p)
}

// bareNumerics are the types that a statement gives to columns and domains, and that are numeric and
// nothing else.
func bareNumerics(node message) (bare []message) {
	take := func(kind message) {
		if isType(kind, "numeric") {
			bare = append(bare, kind)
		}
	}
	switch node.name() {
	case "CreateStmt":
		for element := range node.list("table_elts") {
			if element.is("ColumnDef") {
				take(element.child("type_name"))
			}
		}
	case "CreateDomainStmt":
		take(node.child("type_name"))
	case "AlterTableStmt":
		for cmd := range node.list("cmds") {
			switch pg_query.AlterTableType(cmd.integer("subtype")) {
			case pg_query.AlterTableType_AT_AddColumn, pg_query.AlterTableType_AT_AlterColumnType:
				take(cmd.child("def").child("type_name"))
			}
		}
	}
	return bare
}

// widenSteps gives the precision to what is carried out in the place of an ALTER TABLE.
func (r *rewriter) widenSteps(p *part) {
	if r.rules.Numeric == "" {
		return
	}
	if a := p.st.Alteration; a != nil {
		a.widen(r.rules.Numeric)
	}
	if c := p.st.Commands; c != nil { // its parts are planned by themselves
		c.Text = widened(c.Text, r.rules.Numeric)
	}
	if c := p.st.Constraints; c != nil {
		c.Text = widened(c.Text, r.rules.Numeric)
		for i := range c.Columns {
			c.Columns[i].Add = widened(c.Columns[i].Add, r.rules.Numeric)
		}
	}
}

// widen gives the type of a column the precision, where it has none.
func (a *Alteration) widen(digits string) {
	if !isType(a.kind, "numeric") {
		return
	}
	a.declared = a.Type
	a.Text, a.Type = widened(a.Text, digits), a.Type+digits
	a.kind = columnOf("numeric" + digits).child("type_name")
}

// precise puts digits behind the name of a type that begins with token i.
func (p *phrase) precise(i int, digits string) edit {
	last := p.tokens[p.qualified(i)-1]
	return edit{int(last.start), int(last.end), string(p.text[last.start:last.end]) + digits}
}

// widened is the text of one statement with the precision behind each type that has none. A text that
// does not mean that afterwards is returned as it was.
func widened(sql, digits string) string {
	tree, err := parseTree(sql)
	if err != nil || len(tree.values("stmts")) != 1 {
		return sql
	}
	ph, meant, edits := lexPhrase([]byte(sql), 0, len(sql)), intents{}, []edit(nil)
	for _, kind := range bareNumerics(tree.child("stmts").child("stmt")) {
		i := ph.at(kind.integer("location"))
		if i < 0 {
			return sql
		}
		edits = append(edits, ph.precise(i, digits))
		meant.set(kind, "typmods", columnOf("numeric"+digits).child("type_name").values("typmods")...)
	}
	text, ok := applyEdits(sql, edits)
	if !ok {
		return sql
	}
	if made, err := parseTree(text); err != nil || !meant.equal(tree, made) {
		return sql
	}
	return text
}
