package bytea

import (
	"fmt"
	"slices"
	"strings"
)

// comparisonResult says whether the stock database (plain PostgreSQL) and the mapped one (bytea keys stored as text)
// answered a statement equally.
type comparisonResult struct {
	kind comparisonKind
	text string
}

type comparisonKind int

const (
	same comparisonKind = iota
	bothFail
	codesDiffer // which of several errors is found first
	refused     // 0A000, where stock has an answer
	mismatch
)

// compareOutcomes compares the outcomes of statement s in two databases: mapped (bytea keys stored as text) and stock
// (plain PostgreSQL).
func compareOutcomes(s statement, stock, mapped statementOutcome) comparisonResult {
	if mapped.code == "55000" && s.table != nil && s.table.Of != nil {
		mapped.code = "0A000" // all columns of the view are mapped
	}
	switch {
	case stock.code == "" && mapped.code == "0A000":
		return comparisonResult{refused, mapped.reason}
	case stock.code+mapped.code == cardinality && hasBranches(s.text):
		return comparisonResult{codesDiffer, oneEvaluates}
	case stock.code == "" && mapped.code == "54000" && strings.Contains(mapped.reason, "key size too large"):
		return comparisonResult{codesDiffer, "54000 for a key"} // the cluster's limit, of which digits need twice as much
	case stock.code == "" && mapped.code != "", stock.code != "" && mapped.code == "":
		return comparisonResult{mismatch, fmt.Sprintf("stock: %s, mapped: %s", stock.resultText(), mapped.resultText())}
	case stock.code == mapped.code && stock.code != "":
		return comparisonResult{bothFail, ""}
	case stock.code != "":
		what := stock.code + " " + mapped.code
		if mayErrorsDiffer(stock.code, mapped.code) {
			return comparisonResult{codesDiffer, what}
		}
		return comparisonResult{mismatch, fmt.Sprintf("stock: %s, mapped: %s", stock.resultText(), mapped.resultText())}
	}
	if diff := describeDifference(s, stock, mapped); diff != "" {
		return comparisonResult{mismatch, diff}
	}
	return comparisonResult{same, ""}
}

// cardinality is the SQLSTATE for a subquery that returns several rows as one value. PostgreSQL evaluates the parts
// of an AND or a CASE in the order of their costs, and conversions add costs. Only one database may therefore run the
// subquery. Tally.ExcessProblem bounds the number of these cases.
const (
	cardinality  = "21000"
	oneEvaluates = "21000 in one of both"
)

// hasBranches reports whether a text has a subquery that an AND, OR or CASE of the text may leave unevaluated.
func hasBranches(text string) bool {
	return strings.Contains(text, "(SELECT") && (strings.Contains(text, " AND ") || strings.Contains(text, " OR ") || strings.Contains(text, "CASE "))
}

// mayErrorsDiffer reports whether the two databases may answer one statement with the SQLSTATEs stock and mapped. A
// statement may have several errors of analysis, and each database may find another one first. The mapped database
// may also refuse a wrong statement with 0A000.
func mayErrorsDiffer(stock, mapped string) bool {
	return strings.HasPrefix(stock, "42") && (strings.HasPrefix(mapped, "42") || mapped == "0A000") ||
		mapped == "0A000" && strings.HasPrefix(stock, "2")
}

func (o statementOutcome) resultText() string {
	if o.code != "" {
		return o.code + " " + o.reason
	}
	return fmt.Sprintf("%s, %d rows", o.tag, len(o.rows))
}

// describeDifference returns how the answers stock and mapped of the two databases differ, or "" if they are equal.
func describeDifference(s statement, stock, mapped statementOutcome) string {
	switch {
	case !slices.Equal(stock.params, mapped.params):
		return fmt.Sprintf("parameters: stock %v, mapped %v", stock.params, mapped.params)
	case !slices.Equal(stock.fields, mapped.fields):
		return fmt.Sprintf("columns: stock %v, mapped %v", stock.fields, mapped.fields)
	case stock.tag != mapped.tag:
		return fmt.Sprintf("tag: stock %q, mapped %q", stock.tag, mapped.tag)
	}
	if diff := describeRowDifference(stock.rows, mapped.rows); diff != "" {
		return diff
	}
	for i := range stock.keys {
		for _, at := range s.order {
			if at < len(stock.keys[i]) && stock.keys[i][at] != mapped.keys[i][at] {
				return fmt.Sprintf("order: row %d, column %d: stock %s, mapped %s", i+1, at+1, stock.keys[i][at], mapped.keys[i][at])
			}
		}
	}
	return ""
}

// describeRowDifference returns which rows only one of two results has, whatever their order. It returns "" if the
// rows are equal.
func describeRowDifference(stock, mapped []string) string {
	stock, mapped = slices.Sorted(slices.Values(stock)), slices.Sorted(slices.Values(mapped))
	if slices.Equal(stock, mapped) {
		return ""
	}
	lacks := func(a, b []string) string {
		for _, row := range a {
			if !slices.Contains(b, row) {
				return row
			}
		}
		return "none"
	}
	return fmt.Sprintf("rows: %d and %d; only in stock: %s; only in mapped: %s", len(stock), len(mapped), lacks(stock, mapped), lacks(mapped, stock))
}
