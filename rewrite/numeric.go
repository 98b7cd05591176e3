package rewrite

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/alter"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// A cluster stores a column of type numeric without a precision as numeric(18,6), and silently rounds values with more
// digits. PostgreSQL stores every digit.

// NumericKey is the configuration key that sets Rules.Numeric.
const NumericKey = "rewrite.numeric"

// These are the values of the configuration key NumericKey, besides a precision and a scale.
const (
	NumericWide = "wide"
	NumericAsIs = "as-is"
)

// WideNumeric is the precision and scale of NumericWide, in decimal digits. 38 digits after the point hold quotients of
// decimal128 (34 digits) and 10^-18 coins. 90 digits before the point hold a number of 256 bits (78 digits). A greater
// number fails with 22003. In a key, a value takes 72 of the 2,000 bytes.
const WideNumeric = "128,38"

// mostNumericDigits is the greatest precision of a numeric that clusters have accepted since 2026-08-25.
const mostNumericDigits = 1000

// NumericDigits converts a value of NumericKey to the text that follows the word numeric: "(128,38)", or "" for
// NumericAsIs. It returns an error for an invalid value.
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

// rewriteNumeric adds a precision to columns and domains of type numeric without one. If Rules.Numeric is "", it only
// reports them as findings.
func (r *rewriter) rewriteNumeric(p *statementPart) {
	if r.rules.Numeric == "" && !r.rules.Dialect {
		return
	}
	for _, kind := range bareNumerics(p.node) {
		at := kind.Integer("location")
		if r.rules.Numeric == "" {
			rounds := finding.Handled(finding.BareNumeric, finding.Flagged, finding.Warning, "passes unchanged, and the cluster rounds to six digits behind the point", at)
			r.addFinding(rounds)
			continue
		}
		ph := r.statementTokens(p)
		i := ph.TokenAt(at)
		if i < 0 {
			return
		}
		r.addEdits(ph.AppendToTypeName(i, r.rules.Numeric))
		r.meant.Set(kind, "typmods", parse.ColumnTree("numeric"+r.rules.Numeric).Child("type_name").Values("typmods")...)
		r.addFinding(finding.Handled(finding.BareNumeric, finding.Rewritten, finding.Warning, "rewritten to numeric with a precision and a scale: values are shown with that many digits behind the point, and rounded beyond", at))
	}
	r.addPrecisionToSteps(p)
}

// bareNumerics returns the type nodes of the columns and domains in a statement whose type is numeric without a
// precision.
func bareNumerics(node parse.TreeNode) (bare []parse.TreeNode) {
	take := func(kind parse.TreeNode) {
		if parse.IsType(kind, "numeric") {
			bare = append(bare, kind)
		}
	}
	switch node.TypeName() {
	case "CreateStmt":
		for element := range node.List("table_elts") {
			if element.Is("ColumnDef") {
				take(element.Child("type_name"))
			}
		}
	case "CreateDomainStmt":
		take(node.Child("type_name"))
	case "AlterTableStmt":
		for cmd := range node.List("cmds") {
			switch parse.AlterTableType(cmd.Integer("subtype")) {
			case parse.AT_AddColumn, parse.AT_AlterColumnType:
				take(cmd.Child("def").Child("type_name"))
			}
		}
	}
	return bare
}

// addPrecisionToSteps adds the precision to the statements that Sluice runs in place of an ALTER TABLE (Steps).
func (r *rewriter) addPrecisionToSteps(p *statementPart) {
	if r.rules.Numeric == "" {
		return
	}
	switch steps := p.st.Steps.(type) {
	case *alter.Alteration:
		if steps.AddPrecision(r.rules.Numeric) {
			steps.Text = withPrecision(steps.Text, r.rules.Numeric)
		}
	case *MultiCommand: // its parts are planned separately
		steps.Text = withPrecision(steps.Text, r.rules.Numeric)
	case *alter.AddedConstraints:
		steps.Text = withPrecision(steps.Text, r.rules.Numeric)
		for i := range steps.Columns {
			steps.Columns[i].Add = withPrecision(steps.Columns[i].Add, r.rules.Numeric)
		}
	}
}

// withPrecision adds digits, a precision, to each numeric type without one in a statement. It returns sql if the
// result, parsed again, differs in anything else.
func withPrecision(sql, digits string) string {
	tree, err := parse.Tree(sql)
	if err != nil || len(tree.Values("stmts")) != 1 {
		return sql
	}
	ph, meant, edits := parse.LexTokens([]byte(sql), 0, len(sql)), parse.TreeChanges{}, []parse.Edit(nil)
	for _, kind := range bareNumerics(tree.Child("stmts").Child("stmt")) {
		i := ph.TokenAt(kind.Integer("location"))
		if i < 0 {
			return sql
		}
		edits = append(edits, ph.AppendToTypeName(i, digits))
		meant.Set(kind, "typmods", parse.ColumnTree("numeric"+digits).Child("type_name").Values("typmods")...)
	}
	text, ok := parse.Apply(sql, edits)
	if !ok {
		return sql
	}
	if made, err := parse.Tree(text); err != nil || !meant.Equal(tree, made) {
		return sql
	}
	return text
}
