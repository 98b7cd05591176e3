package bytea

import (
	"fmt"
	"slices"
	"strings"
)

// verdict is what a comparison finds.
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

// compare holds the mapped database's outcome against stock's.
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

// cardinality is a query of several rows in the place of a value. PostgreSQL evaluates what
// an AND or a CASE decides in the order that it finds cheapest, and conversions cost: one
// database may meet such a query where the other has decided without. Excess bounds how often.
const (
	cardinality  = "21000"
	oneEvaluates = "21000 in one of both"
)

// branches reports whether a part of a text may decide that another is not evaluated.
func branches(text string) bool {
	return strings.Contains(text, "(SELECT") && (strings.Contains(text, " AND ") || strings.Contains(text, " OR ") || strings.Contains(text, "CASE "))
}

// mayDiffer tells whether a text can have both errors: those of its analysis, of which each
// database finds another one first, and 0A000 for a text that is wrong anyway.
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

// different says what two answers differ in.
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

// differentRows compares rows in no order.
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
