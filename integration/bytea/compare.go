package bytea

import (
	"fmt"
	"slices"
	"strings"
)

// verdict is the result of a comparison.
type verdict struct {
	kind verdictKind
	text string
}

type verdictKind int

const (
	same verdictKind = iota
	bothFail
	codesDiffer // which of several errors is found first
	refused     // 0A000, where stock has an answer
	mismatch
)

// compare compares the outcome in the mapped database with that in the stock database.
func compare(s statement, stock, mapped outcome) verdict {
	if mapped.code == "55000" && s.table != nil && s.table.Of != nil {
		mapped.code = "0A000" // all columns of the view are mapped
	}
	switch {
	case stock.code == "" && mapped.code == "0A000":
		return verdict{refused, mapped.reason}
	case stock.code+mapped.code == cardinality && branches(s.text):
		return verdict{codesDiffer, oneEvaluates}
	case stock.code == "" && mapped.code == "54000" && strings.Contains(mapped.reason, "key size too large"):
		return verdict{codesDiffer, "54000 for a key"} // the cluster's limit, of which digits need twice as much
	case stock.code == "" && mapped.code != "", stock.code != "" && mapped.code == "":
		return verdict{mismatch, fmt.Sprintf("stock: %s, mapped: %s", stock.result(), mapped.result())}
	case stock.code == mapped.code && stock.code != "":
		return verdict{bothFail, ""}
	case stock.code != "":
		what := stock.code + " " + mapped.code
		if mayDiffer(stock.code, mapped.code) {
			return verdict{codesDiffer, what}
		}
		return verdict{mismatch, fmt.Sprintf("stock: %s, mapped: %s", stock.result(), mapped.result())}
	}
	if diff := different(s, stock, mapped); diff != "" {
		return verdict{mismatch, diff}
	}
	return verdict{same, ""}
}

// cardinality is the SQLSTATE for a subquery that returns several rows as one value. PostgreSQL evaluates the parts of
// an AND or a CASE in the order of their costs, and conversions add costs. Only one database may therefore run the
// subquery. Excess bounds the number of these cases.
const (
	cardinality  = "21000"
	oneEvaluates = "21000 in one of both"
)

// branches reports whether a part of a text may prevent the evaluation of a subquery in it.
func branches(text string) bool {
	return strings.Contains(text, "(SELECT") && (strings.Contains(text, " AND ") || strings.Contains(text, " OR ") || strings.Contains(text, "CASE "))
}

// mayDiffer reports whether a text may have both SQLSTATEs. A text may have several errors of analysis, and each
// database may find another one first. A wrong text may also be refused with 0A000.
func mayDiffer(stock, mapped string) bool {
	return strings.HasPrefix(stock, "42") && (strings.HasPrefix(mapped, "42") || mapped == "0A000") ||
		mapped == "0A000" && strings.HasPrefix(stock, "2")
}

func (o outcome) result() string {
	if o.code != "" {
		return o.code + " " + o.reason
	}
	return fmt.Sprintf("%s, %d rows", o.tag, len(o.rows))
}

// different returns in what two answers differ, "" if they are equal.
func different(s statement, stock, mapped outcome) string {
	switch {
	case !slices.Equal(stock.params, mapped.params):
		return fmt.Sprintf("parameters: stock %v, mapped %v", stock.params, mapped.params)
	case !slices.Equal(stock.fields, mapped.fields):
		return fmt.Sprintf("columns: stock %v, mapped %v", stock.fields, mapped.fields)
	case stock.tag != mapped.tag:
		return fmt.Sprintf("tag: stock %q, mapped %q", stock.tag, mapped.tag)
	}
	if diff := differentRows(stock.rows, mapped.rows); diff != "" {
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

// differentRows returns in what two sets of rows differ, in any order, "" if they are equal.
func differentRows(stock, mapped []string) string {
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
