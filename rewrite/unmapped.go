package rewrite

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Unmapped is the refusal of a text that names a table of the snapshot with mapped columns,
// in a process that maps none (Rules.Bytea is ByteaOff): it would read and write their digits.
// nil for any other text. Names are looked for in all schemas that names knows.
func (p *Planner) Unmapped(sql []byte, names *schema.Names) *Refusal {
	if names == nil || !names.Maps() || !names.Concerns(sql) {
		return nil
	}
	if p.config.guard(sql) != parse.Fits {
		if names.Mentions(sql) {
			return errOff()
		}
		return nil
	}
	text := string(sql)
	tree, err := parseDialect(text)
	if err != nil {
		return nil // the server says so
	}
	plan, _ := p.draft(text, tree)
	if slices.ContainsFunc(plan.Statements, func(st Statement) bool { return names.MapsAny(st.Tables) }) {
		return errOff()
	}
	return nil
}

func errOff() *Refusal {
	return &Refusal{Unsent: true, Code: "0A000", Message: "the table has bytea columns that are stored as text, and this process does not map them",
		Hint: "Set rewrite.bytea: hex, as the process has it that made the table."}
}
