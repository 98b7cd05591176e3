package rewrite

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// UnmappedRefusal returns the refusal of a text that names a table with mapped columns (bytea stored as text), or nil
// if the text is allowed. It is for a process with ByteaOff, which would read and write the digits as data. It searches
// the names in all schemas of names.
func (p *Planner) UnmappedRefusal(sql []byte, names *schema.NameResolver) *Refusal {
	if names == nil || !names.HasMapped() || !names.MayConcernMapped(sql) {
		return nil
	}
	if p.config.checkLimits(sql) != parse.Fits {
		if names.MayMentionMapped(sql) {
			return mappingOffRefusal()
		}
		return nil
	}
	text := string(sql)
	tree, err := parseDialect(text)
	if err != nil {
		return nil // the server reports the error
	}
	plan, _ := p.draftPlan(text, tree)
	if slices.ContainsFunc(plan.Statements, func(st Statement) bool { return names.MayMapAny(st.Tables) }) {
		return mappingOffRefusal()
	}
	return nil
}

func mappingOffRefusal() *Refusal {
	return &Refusal{Unsent: true, Code: "0A000", Message: "the table has bytea columns that are stored as text, and this process does not map them",
		Hint: "Set rewrite.bytea: hex, as the process has it that made the table."}
}
