package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Plans of texts that were never parsed. Shared and immutable.
var (
	emptyPlan   = &Plan{Kind: Empty}
	selectPlan  = doubted(told(Read, "select"))
	valuesPlan  = doubted(told(Read, "values"))
	sureSelect  = told(Read, "select")
	insertPlan  = told(Write, "insert")
	upsertPlan  = contending("insert") // ON CONFLICT DO UPDATE
	updatePlan  = contending("update")
	deletePlan  = contending("delete")
	guardedPlan = &Plan{Kind: Unknown, Pin: PinUnparsed}
	// foreignPlan is of a text that PostgreSQL's grammar does not take and that
	// holds no word for anything that would outlast it.
	foreignPlan = &Plan{Kind: Unknown}
)

// told is the plan of a text that its words alone told.
func told(kind Kind, operation string) *Plan {
	st := Statement{Kind: kind, Operation: operation, demand: Demand{Rows: kind == Write}}
	if kind == Write {
		st.writes = strings.ToUpper(operation)
	}
	return &Plan{Kind: kind, Operation: operation, Statements: []Statement{st}}
}

// contending is that of one that changes rows that exist.
func contending(operation string) *Plan {
	plan := told(Write, operation)
	plan.Contends, plan.Statements[0].Contends = true, true
	return plan
}

// doubted says of a plan that its text may write all the same.
func doubted(p *Plan) *Plan {
	p.unsure, p.Statements[0].unsure = true, true
	return p
}

// scanPlans are the plans of texts that their words alone show.
var scanPlans = [...]*Plan{parse.Unshown: nil, parse.EmptyText: emptyPlan, parse.SelectText: selectPlan, parse.SureText: sureSelect, parse.ValuesText: valuesPlan,
	parse.InsertText: insertPlan, parse.UpsertText: upsertPlan, parse.UpdateText: updatePlan, parse.DeleteText: deletePlan}

// scan plans a text by its words alone (parse.ScanWords). It returns nil for a text that must be parsed.
func scan(sql []byte) (plan *Plan, table []byte) {
	shown, table := parse.ScanWords(sql)
	return scanPlans[shown], table
}
