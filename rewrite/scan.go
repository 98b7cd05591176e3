package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// These are plans of texts that Sluice did not parse. Many texts share each plan, so it never changes.
var (
	emptyPlan   = &Plan{Kind: Empty}
	selectPlan  = markUnsure(wordsPlan(Read, "select"))
	valuesPlan  = markUnsure(wordsPlan(Read, "values"))
	sureSelect  = wordsPlan(Read, "select")
	insertPlan  = wordsPlan(Write, "insert")
	upsertPlan  = contendingPlan("insert") // INSERT with ON CONFLICT DO UPDATE
	updatePlan  = contendingPlan("update")
	deletePlan  = contendingPlan("delete")
	guardedPlan = &Plan{Kind: Unknown, Pin: PinUnparsed}
	// foreignPlan is the plan of a text that violates PostgreSQL's grammar and has no word that could leave state in
	// the session.
	foreignPlan = &Plan{Kind: Unknown}
)

// wordsPlan returns the plan of a single statement of this kind. operation is its name in metrics.
func wordsPlan(kind StatementKind, operation string) *Plan {
	st := Statement{Kind: kind, Operation: operation, demand: TxDemand{Rows: kind == Write}}
	if kind == Write {
		st.writeCommand = strings.ToUpper(operation)
	}
	return &Plan{Kind: kind, Operation: operation, Statements: []Statement{st}}
}

// contendingPlan returns the plan of a single Write statement that changes existing rows, such as an UPDATE.
func contendingPlan(operation string) *Plan {
	plan := wordsPlan(Write, operation)
	plan.Contends, plan.Statements[0].Contends = true, true
	return plan
}

// markUnsure marks p, a plan of kind Read, as unsure: code that the text does not show may write. It returns p.
func markUnsure(p *Plan) *Plan {
	p.unsure, p.Statements[0].unsure = true, true
	return p
}

// scanPlans maps each TextClass that parse.ScanWords returns to a plan. A text of class MustParse has no plan here.
var scanPlans = [...]*Plan{parse.MustParse: nil, parse.EmptyText: emptyPlan, parse.SelectText: selectPlan, parse.SureText: sureSelect, parse.ValuesText: valuesPlan,
	parse.InsertText: insertPlan, parse.UpsertText: upsertPlan, parse.UpdateText: updatePlan, parse.DeleteText: deletePlan}

// planByWords returns the plan of a text by its words alone, and the name of its table. plan is nil if Sluice must
// parse the text.
func planByWords(sql []byte) (plan *Plan, table []byte) {
	shown, table := parse.ScanWords(sql)
	return scanPlans[shown], table
}
