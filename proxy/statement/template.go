package statement

import (
	"sync/atomic"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// MaxCachedText is the longest text in the cache of templates, in bytes with its parameter types. Longer texts are
// seldom used twice.
const MaxCachedText = 64 << 10

// Template is one statement text that clients prepare. All clients and backends share it. Its key is the SQL
// text, the parameter types and the settings for parsing. Only atomic fields change, and any session may set them.
type Template struct {
	SQL  string
	Cost int    // approximate memory in bytes (textCost)
	OIDs string // the parameter types of the Parse frame, with their count
	Plan *rewrite.Plan
	// Parsing is the hash of the settings that affect how SQL is parsed. Names is the number of the schema snapshot by
	// which the text's table names were resolved.
	Parsing settings.ParsingHashes
	Names   uint64
	// PlannerNumber is the number of the planner that the plan depends on (Planner.ForOptions). 0 is the configuration's
	// planner, or means that all planners make the same plan.
	PlannerNumber uint64
	// Unshared means that only one client uses the template. In that case SharedForm is the shared template of the same
	// text, or nil. See reuseParsedStatement and unparsedTemplate.
	Unshared      bool
	SharedForm    *Template
	OptsOut       bool // a comment in the text asks for no replay
	Inserts       bool // it may be an INSERT ... RETURNING
	MayShowTxTime bool // may return now() or the like, the time of its transaction
	// Split is set in the template of a query that Sluice sends as two (FOR UPDATE on a join). The client gets the
	// answer of this template's statement. splitForm, in the original template, is the template with Split, once made.
	Split     *rewrite.SplitQuery
	splitForm atomic.Pointer[Template]
	// unsplitForm, in a template with Split, is the template of the client's own text. The cost includes both texts.
	unsplitForm *Template
	// Accepted is 1 plus the schema epoch in which a backend last accepted the text, or 0 if no backend has.
	Accepted atomic.Uint64
	// Description is the description of the statement that Sluice may send to any client (PublishDescription).
	Description       atomic.Pointer[Description]
	PortalDescription atomic.Pointer[Description] // of a portal, as last sent to a client
}

// isLong reports whether a statement's text is too long for the cache, so that no other client shares the template.
func (t *Template) isLong() bool { return len(t.SQL)+len(t.OIDs) > MaxCachedText }

// isCacheable reports whether a statement's text and parameter types are short enough for the cache of templates.
func isCacheable(sql, oids []byte) bool { return len(sql)+len(oids) <= MaxCachedText }

// CurrentForm returns the template of the SQL that the server gets now. For a FOR UPDATE on a join that is the
// template of two statements, otherwise t. All users of the text share the template.
func (t *Template) CurrentForm() *Template {
	split := t.Plan.ActiveSplit()
	if split == nil || t.Split != nil {
		return t
	}
	made := &Template{SQL: t.SQL, OIDs: t.OIDs, Cost: t.Cost, Plan: t.Plan, Parsing: t.Parsing, Names: t.Names, PlannerNumber: t.PlannerNumber, OptsOut: t.OptsOut, Split: split, unsplitForm: t}
	if !t.splitForm.CompareAndSwap(nil, made) {
		return t.splitForm.Load()
	}
	return made
}

// ConstantsChangeUnder reports whether constants of the statement, such as '1/2/2000'::date, would mean something else
// under the settings p. The statement is examined only if a setting such as DateStyle has changed.
func (t *Template) ConstantsChangeUnder(p settings.ParsingHashes) bool {
	others := t.Parsing.Constants.Differing(p.Constants)
	if others == 0 || t.Plan.Kind == rewrite.Setting || t.Plan.Kind == rewrite.Control {
		return false
	}
	return parse.InputSettingsOfText([]byte(t.SQL))&others != 0
}

// PrivateCopy returns a copy of the statement template that only one client uses.
func (t *Template) PrivateCopy() *Template {
	own := &Template{SQL: t.SQL, OIDs: t.OIDs, Cost: t.Cost, Plan: t.Plan, Parsing: t.Parsing, Names: t.Names, PlannerNumber: t.PlannerNumber, OptsOut: t.OptsOut, Unshared: true, SharedForm: t}
	own.Description.Store(t.Description.Load())
	return own
}

// ServerText returns the SQL that the server gets in the Parse for the client's text.
func (t *Template) ServerText() string {
	if t.Split != nil {
		return t.Split.Read
	}
	if t.Plan.Text != "" {
		return t.Plan.Text
	}
	return t.SQL
}
