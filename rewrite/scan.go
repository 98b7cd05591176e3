package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// These are shared, immutable plans of texts that were not parsed.
var (
	emptyPlan   = &Plan{Kind: Empty}
	selectPlan  = markUnsure(wordsPlan(Read, "select"))
	valuesPlan  = markUnsure(wordsPlan(Read, "values"))
	sureSelect  = wordsPlan(Read, "select")
	insertPlan  = wordsPlan(Write, "insert")
	upsertPlan  = contendingPlan("insert") // ON CONFLICT DO UPDATE
	updatePlan  = contendingPlan("update")
	deletePlan  = contendingPlan("delete")
	guardedPlan = &Plan{Kind: Unknown, Pin: PinUnparsed}
	// foreignPlan is the plan of a text that is not PostgreSQL's grammar and has no keyword with a lasting effect.
	foreignPlan = &Plan{Kind: Unknown}
)

// wordsPlan returns the plan of a single statement whose words alone show its kind and operation.
func wordsPlan(kind StatementKind, operation string) *Plan {
	st := Statement{Kind: kind, Operation: operation, demand: TxDemand{Rows: kind == Write}}
	if kind == Write {
		st.writeCommand = strings.ToUpper(operation)
	}
	return &Plan{Kind: kind, Operation: operation, Statements: []Statement{st}}
}

// contendingPlan returns the plan of a single Write statement that changes existing rows.
func contendingPlan(operation string) *Plan {
	plan := wordsPlan(Write, operation)
	plan.Contends, plan.Statements[0].Contends = true, true
	return plan
}

// markUnsure returns p, a plan of kind Read, after recording that code which the text does not show may write.
func markUnsure(p *Plan) *Plan {
	p.unsure, p.Statements[0].unsure = true, true
	return p
}

// scanPlans maps the classes of texts that parse.ScanWords returns to plans.
var scanPlans = [...]*Plan{parse.MustParse: nil, parse.EmptyText: emptyPlan, parse.SelectText: selectPlan, parse.SureText: sureSelect, parse.ValuesText: valuesPlan,
	parse.InsertText: insertPlan, parse.UpsertText: upsertPlan, parse.UpdateText: updatePlan, parse.DeleteText: deletePlan}

// planByWords returns the plan of a text from its words, and the name of its table. plan is nil for a text that must be
// parsed.
func planByWords(sql []byte) (plan *Plan, table []byte) {
	shown, table := parse.ScanWords(sql)
	return scanPlans[shown], table
}
