package rewrite

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DSQL has no SQL cursors. Sluice carries out DECLARE, FETCH, MOVE and CLOSE by portals of the PostgreSQL protocol.
// Sluice plans a cursor's query as a separate text, to which the other rules apply.

// CursorAction says what a statement does to a cursor.
type CursorAction uint8

const (
	DeclareCursor CursorAction = iota
	FetchCursor
	MoveCursor
	CloseCursor
)

// CursorStatement is a DECLARE, FETCH, MOVE or CLOSE that Sluice carries out.
type CursorStatement struct {
	Verb CursorAction
	Name string
	// Query is the query of a DECLARE CURSOR. Spaces replace all characters before the query, so that a position in a
	// server error is also the position in the client's text.
	Query string
	// NoScroll means that the DECLARE says NO SCROLL, so that PostgreSQL would refuse to move the cursor backward.
	// Scroll means that it says SCROLL.
	NoScroll, Scroll bool
	// Hold means that the DECLARE says WITH HOLD: the cursor's rows outlive the transaction.
	Hold bool
	// Rows is the number of rows that a FETCH or MOVE goes forward. 0 means all rows.
	Rows uint32
	// Backward means that the FETCH or MOVE goes backward. Elsewhere means that it goes backward, goes nowhere, or goes
	// to a row of a given number. A portal cannot do so.
	Backward, Elsewhere bool
	// Direction and Count are the direction and the count that a FETCH or MOVE gives. Sluice uses them for cursors
	// whose rows it stores.
	Direction CursorDirection
	Count     int64
}

// CursorDirection says what the Count of a FETCH or MOVE is: a number of rows forward or backward, or a row's number.
type CursorDirection uint8

const (
	CursorForward CursorDirection = iota
	CursorBackward
	CursorAbsolute
	CursorRelative
)

// CursorAll is the Count that means ALL, as in FETCH ALL.
const CursorAll = math.MaxInt64

// These are the options of a DECLARE CURSOR, from PostgreSQL's parsenodes.h.
const (
	cursorBinary      = 0x0001
	cursorScroll      = 0x0002
	cursorNoScroll    = 0x0004
	cursorInsensitive = 0x0008
	cursorAsensitive  = 0x0010
	cursorHold        = 0x0020
)

// These are texts of Finding.Action for statements about cursors.
const (
	overPortal = "carried out over a portal of the protocol, inside a transaction"
	inMemory   = "carried out by Sluice, which keeps the rows in its memory (cursor.stored_bytes)"
)

// planCursor plans or refuses a statement about a cursor. If it returns true, no other rule applies. It returns false
// for any other statement, and for CLOSE ALL, which session.go handles.
func (r *rewriter) planCursor(p *statementPart) bool {
	if !r.rules.Cursors {
		return false
	}
	var c *CursorStatement
	var refusal *Refusal
	switch m := p.node; m.TypeName() {
	case "DeclareCursorStmt":
		if c, refusal = r.parseDeclare(p); refusal == nil {
			r.reportCursorQuery(p)
		}
	case "FetchStmt":
		c = parseFetch(m)
	case "ClosePortalStmt":
		if m.Text("portalname") == "" {
			return false
		}
		c = &CursorStatement{Verb: CloseCursor, Name: m.Text("portalname")}
	default:
		return false
	}
	switch {
	case len(r.parts) > 1:
		refusal = refusedInString
	case refusal == nil && r.rules.Advisory && p.advisory:
		refusal = refusedAdvisory
	}
	p.st.Pin = NoPin
	if refusal != nil {
		p.st.Refusal = refusal
		r.addFinding(rejectedCursor(remedies[refusal], p.st.Start))
		return true
	}
	switch p.st.Does, p.st.Cursor = UsesCursor, c; {
	case c.Elsewhere:
		f := rejectedCursor("FETCH FORWARD n, FETCH NEXT or FETCH ALL; to go back, declare the cursor SCROLL ... WITH HOLD outside of a transaction, or run the query again", p.st.Start)
		f.Action = "refused, but for a cursor WITH HOLD that was declared outside of a transaction"
		r.addFinding(f)
	case c.Hold:
		r.addFinding(finding.Handled(finding.CursorUse, finding.Answered, finding.Info, inMemory, p.st.Start))
	default:
		r.addFinding(finding.Handled(finding.CursorUse, finding.Answered, finding.Info, overPortal, p.st.Start))
	}
	return true
}

// rejectedCursor returns the finding about a cursor statement that Sluice refuses. If remedy is "", the finding has the
// feature's usual remedy.
func rejectedCursor(remedy string, at int) finding.Finding {
	f := finding.Handled(finding.CursorUse, finding.Rejected, finding.Error, "refused: it cannot be carried out over a portal of the protocol", at)
	if remedy != "" {
		f.Remedy = remedy
	}
	return f
}

// parseDeclare returns the CursorStatement of a DECLARE CURSOR, or a refusal. If PostgreSQL would refuse the statement
// as well, the refusal is PostgreSQL's.
func (r *rewriter) parseDeclare(p *statementPart) (*CursorStatement, *Refusal) {
	m := p.node
	options := m.Integer("options")
	if refusal := refuseDeclareOptions(options, m.Child("query")); refusal != nil {
		return nil, refusal
	}
	c := &CursorStatement{Name: m.Text("portalname"), NoScroll: options&cursorNoScroll != 0, Scroll: options&cursorScroll != 0, Hold: options&cursorHold != 0}
	ph := r.statementTokens(p)
	for i := 2; i < len(ph.Tokens); i++ {
		if !ph.IsKeyword(i, "for") { // FOR is a reserved word, and cannot be a name before the query
			continue
		}
		begin := int(ph.Tokens[i].End)
		c.Query = strings.Repeat(" ", utf8.RuneCount(r.text[:begin])) + string(r.text[begin:p.st.End])
		tree, err := parseDialect(c.Query)
		if err != nil || len(tree.Values("stmts")) != 1 || !(parse.TreeChanges{}).Equal(m.Child("query"), tree.Child("stmts").Child("stmt")) {
			break
		}
		return c, nil
	}
	return nil, refusedUnread
}

// reportCursorQuery reports what the rules will do to the query of a cursor. Sluice applies the rules later, when it
// plans the query as a separate text.
func (r *rewriter) reportCursorQuery(p *statementPart) {
	st := *p.st
	query := *p
	query.st = &st
	alone := &rewriter{rules: r.rules, names: r.names, text: r.text, meant: parse.TreeChanges{}}
	if alone.names != nil {
		alone.rewriteMapped(&query)
	}
	if st.Refusal == nil {
		alone.rewriteLocking(&query)
	}
	if r.rules.Dialect && p.samples {
		alone.addFinding(finding.Refused(finding.TableSample, p.st.Start))
	}
	if r.rules.Dialect && p.advisory {
		alone.addFinding(finding.Refused(finding.AdvisoryLock, p.st.Start))
	}
	for _, f := range alone.findings {
		r.addFinding(f)
	}
}

// refuseDeclareOptions returns the refusal of a DECLARE CURSOR with these options, or nil if they are allowed.
func refuseDeclareOptions(options int, query parse.TreeNode) *Refusal {
	switch {
	case options&cursorScroll != 0 && options&cursorNoScroll != 0:
		return &Refusal{Code: "42P11", Message: "cannot specify both SCROLL and NO SCROLL", Unsent: true}
	case options&cursorInsensitive != 0 && options&cursorAsensitive != 0:
		return &Refusal{Code: "42P11", Message: "cannot specify both ASENSITIVE and INSENSITIVE", Unsent: true}
	case query.Child("into_clause").Shape != nil:
		return &Refusal{Code: "42601", Message: "SELECT ... INTO is not allowed here", Unsent: true}
	case writesInWith(query):
		return &Refusal{Code: "0A000", Message: "DECLARE CURSOR must not contain data-modifying statements in WITH", Unsent: true}
	}
	if refusal := refuseCursorLocking(options, query); refusal != nil {
		return refusal
	}
	switch {
	case options&cursorScroll != 0 && options&cursorHold == 0:
		return refusedScroll
	case options&cursorBinary != 0:
		return refusedBinary
	}
	return nil
}

// refuseCursorLocking returns PostgreSQL's refusal of a DECLARE CURSOR whose query has a locking clause that the
// options exclude, otherwise nil.
func refuseCursorLocking(options int, query parse.TreeNode) *Refusal {
	clause := query.Child("locking_clause")
	if clause.Shape == nil {
		return nil
	}
	strength := lockNames[parse.LockClauseStrength(clause.Integer("strength"))]
	switch {
	case options&cursorHold != 0:
		return &Refusal{Code: "0A000", Message: "DECLARE CURSOR WITH HOLD ... " + strength + " is not supported",
			Detail: "Holdable cursors must be READ ONLY.", Unsent: true}
	case options&cursorScroll != 0:
		return &Refusal{Code: "0A000", Message: "DECLARE SCROLL CURSOR ... " + strength + " is not supported",
			Detail: "Scrollable cursors must be READ ONLY.", Unsent: true}
	case options&cursorInsensitive != 0:
		return &Refusal{Code: "42P11", Message: "DECLARE INSENSITIVE CURSOR ... " + strength + " is not valid",
			Detail: "Insensitive cursors must be READ ONLY.", Unsent: true}
	}
	return nil
}

// lockNames maps the strengths of locking clauses to the names that PostgreSQL's errors give the clauses.
var lockNames = map[parse.LockClauseStrength]string{
	parse.LCS_FORKEYSHARE: "FOR KEY SHARE", parse.LCS_FORSHARE: "FOR SHARE",
	parse.LCS_FORNOKEYUPDATE: "FOR NO KEY UPDATE", parse.LCS_FORUPDATE: "FOR UPDATE"}

// writesInWith reports whether a query has a WITH query that changes data.
func writesInWith(query parse.TreeNode) bool {
	for cte := range query.Child("with_clause").List("ctes") {
		if q := cte.Child("ctequery"); q.Shape != nil && !q.Is("SelectStmt") {
			return true
		}
	}
	return false
}

// These are Sluice's refusals of cursor statements that PostgreSQL accepts.
var (
	refusedInString = &Refusal{Code: "0A000", Message: "statements about cursors must not share a string with other statements",
		Detail: "DSQL has no cursors: Sluice carries them out over portals of the protocol, one statement at a time.",
		Hint:   "Send them one by one.", Unsent: true}
	refusedScroll = &Refusal{Code: "0A000", Message: "SCROLL is not supported for cursors",
		Detail: "DSQL has no cursors: Sluice carries them out over portals of the protocol, which go forward only.",
		Hint:   "Declare the cursor NO SCROLL and read it forward; or WITH HOLD, outside of a transaction; or run the query again.", Unsent: true}
	refusedBinary = &Refusal{Code: "0A000", Message: "BINARY is not supported for cursors",
		Hint: "Leave BINARY out, and ask for the binary format where the rows are fetched, by the extended protocol.", Unsent: true}
	refusedUnread = &Refusal{Code: "0A000", Message: "the query of this cursor cannot be taken out of its DECLARE",
		Hint: "Write DECLARE name NO SCROLL CURSOR FOR query.", Unsent: true}
)

// remedies maps each of these refusals to the remedy in its finding, which is the refusal's hint in lower case.
var remedies = func() map[*Refusal]string {
	m := map[*Refusal]string{}
	for _, r := range []*Refusal{refusedInString, refusedScroll, refusedBinary, refusedUnread} {
		m[r] = strings.ToLower(r.Hint[:1]) + strings.TrimSuffix(r.Hint[1:], ".")
	}
	return m
}()

// parseFetch returns the CursorStatement of a FETCH or MOVE.
func parseFetch(m parse.TreeNode) *CursorStatement {
	c := &CursorStatement{Verb: FetchCursor, Name: m.Text("portalname")}
	if m.Flag("ismove") {
		c.Verb = MoveCursor
	}
	rows := int64(m.SingleValue("how_many").Number)
	c.Count = rows
	switch parse.FetchDirection(m.Integer("direction")) {
	case parse.FETCH_FORWARD:
	case parse.FETCH_BACKWARD:
		c.Direction = CursorBackward
		rows = -rows
	case parse.FETCH_RELATIVE:
		c.Direction = CursorRelative
		if rows != 1 {
			rows = 0
		}
	default:
		c.Direction = CursorAbsolute
		rows = 0
	}
	switch {
	case rows == math.MaxInt64: // ALL
	case rows > 0 && rows <= math.MaxInt32:
		c.Rows = uint32(rows)
	default:
		c.Backward, c.Elsewhere = rows < 0, true
	}
	return c
}
