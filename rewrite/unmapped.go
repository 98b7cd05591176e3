package rewrite

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Unmapped returns the refusal of a text that names a table with mapped columns, in a process with ByteaOff.
// The process would read and write hexadecimal digits as data. nil means that the text is allowed. Names are
// looked up in all schemas of names.
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
		return nil // the server reports the error
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
