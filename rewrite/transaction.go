package rewrite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// DDL in transactions. A transaction of DSQL takes one statement of DDL, and no change of rows
// beside it. What follows is what a text, or a statement, asks of its transaction; the relay
// commits a transaction in parts where it is told to.

// InTransactions says what becomes of DDL in a transaction that holds something else beside.
type InTransactions uint8

const (
	// RefuseDDL leaves the statement to the server, which refuses it.
	RefuseDDL InTransactions = iota
	// CommitDDL has the transaction committed in front of DDL and behind it, unless that
	// would commit a DROP of what holds rows.
	CommitDDL
	// CommitDrops commits such a DROP too.
	CommitDrops
)

// InTransactionsKey is the configuration key of Rules.InTransactions.
const InTransactionsKey = "ddl.in_transactions"

// inTransactionsNames are the values of the key.
var inTransactionsNames = [...]string{RefuseDDL: "refuse", CommitDDL: "autocommit", CommitDrops: "autocommit-destructive"}

// String is the value of the key.
func (t InTransactions) String() string { return inTransactionsNames[t] }

// InTransactionsChoices are the values of the key.
func InTransactionsChoices() []string { return inTransactionsNames[:] }

// ParseInTransactions is the reverse of String; RefuseDDL for what is none of the choices.
func ParseInTransactions(value string) InTransactions {
	for t, name := range inTransactionsNames {
		if name == value {
			return InTransactions(t)
		}
	}
	return RefuseDDL
}

// toolsRemedy names the switches of migration tools that put each migration in a
// transaction.
const toolsRemedy = "run each statement of DDL in a transaction of its own: Rails disable_ddl_transaction!, Django atomic = False, " +
	"Alembic autocommit_block() with transaction_per_migration, Knex config = { transaction: false }, TypeORM transaction = false, goose -- +goose NO TRANSACTION"

// inTransactionsRemedy adds Sluice's own.
const inTransactionsRemedy = toolsRemedy + ". Or set " + InTransactionsKey + " to autocommit: Sluice then commits in front of DDL and behind it"

// dropsRemedy is what to do about a DROP that would be committed early.
const dropsRemedy = "send the DROP as the last statement of its transaction, or alone; or set " + InTransactionsKey + " to autocommit-destructive"

// Hints of whoever was refused DDL in a transaction, and of whoever was refused what would
// commit a DROP early.
var InTransactionsHint, DropsHint = hint(inTransactionsRemedy), hint(dropsRemedy)

// Demand is what statements ask of the transaction that they run in. Reads, locks, ANALYZE and
// what Sluice answers or refuses ask for nothing.
type Demand struct {
	DDL   bool // the catalog is changed, as DSQL counts it
	Rows  bool // rows are changed
	Drops bool // a table, a column or a schema is dropped, which holds rows that nobody has twice
	Local bool // something is set that ends with the transaction, save what the relay keeps through its parts
	Sets  bool // something is set that ROLLBACK takes back
}

// And is what two ask for together.
func (d Demand) And(e Demand) Demand {
	return Demand{d.DDL || e.DDL, d.Rows || e.Rows, d.Drops || e.Drops, d.Local || e.Local, d.Sets || e.Sets}
}

// Demand is what a statement asks for.
func (st *Statement) Demand() Demand {
	var d Demand
	if st.Tag == "" && st.Refusal == nil && st.Database == nil && st.Cursor == nil {
		d = st.demand
	}
	for _, c := range st.Changes {
		d.Local, d.Sets = d.Local || c.Action == SetLocal && !strings.HasPrefix(c.Name, OwnPrefix), d.Sets || c.Action != SetLocal
	}
	return d
}

// Demand is what the plan's statements ask for together. ok is false for a text that nobody has
// read, and for one of which the server is known to refuse something whatever the transaction
// holds.
func (p *Plan) Demand() (d Demand, ok bool) {
	for i := range p.Statements {
		d = d.And(p.Statements[i].Demand())
	}
	return d, p.Kind != Unknown && !slices.ContainsFunc(p.Findings, isHindrance)
}

// isHindrance reports a finding about what the server refuses whatever the transaction holds.
func isHindrance(f Finding) bool {
	return f.Severity == Error && f.Outcome != Rewritten && f.Feature != SeveralDDL && f.Feature != DDLAndDML
}

// WholeHint is the hint for a text that the server has refused as too much for a transaction though
// transactions are committed in parts: it went there as a whole, because of one statement.
func (p *Plan) WholeHint() string {
	i := slices.IndexFunc(p.Findings, isHindrance)
	if i < 0 {
		return hint(toolsRemedy)
	}
	n := slices.IndexFunc(p.Statements, func(st Statement) bool { return p.Findings[i].At <= st.End })
	switch {
	case n < 0:
		return hint(toolsRemedy)
	case len(p.Statements) == 1:
		return p.Statements[n].Hint
	}
	return fmt.Sprintf("It is sent as one transaction since DSQL refuses statement %d of it, of which nothing is carried out. To that one: %s", n+1, p.Statements[n].Hint)
}

// alone plans a statement of a text as a text of its own; whole: it is not cut into its commands.
func (p *Planner) alone(sql string, names *schema.Names, whole bool) *Plan {
	if whole {
		other := *p
		other.config.Rules.InTransactions = RefuseDDL
		p = &other
	}
	tree, ok := p.read(sql, false)
	if !ok {
		return &Plan{}
	}
	plan, parts := p.draft(sql, tree)
	return p.rewrite(sql, tree, names, plan, parts)
}

// apart looks at an ALTER TABLE or TYPE, or a DO, in a string: where the relay would carry it out if it were
// sent by itself, the string is cut there, and the findings are those of the statement.
func (r *rewriter) apart(p *part) bool {
	if r.alone == nil || len(r.parts) == 1 || !slices.Contains([]string{"AlterTableStmt", "AlterEnumStmt", "DoStmt", "CreateStmt"}, p.node.Name()) {
		return false
	}
	plan := r.alone(string(r.text[p.st.Start:p.st.End]), false)
	st := plan.Single()
	if st == nil || !st.Alters() || st.Numbered != nil && st.Numbered.MayStay() {
		return false
	}
	p.st.apart, p.st.Hint = true, st.Hint
	for _, f := range plan.Findings {
		f.At += p.st.Start
		r.find(f)
	}
	return true
}

// Groups cuts a string of statements where a transaction that is committed in parts is to be
// cut: each statement of DDL or of transaction control is alone, what stands between two of
// these stays together. Each group is a range of Statements, from and up to. nil for a text
// that need not be cut: it has no DDL beside other statements.
func (p *Plan) Groups() [][2]int {
	ddl := slices.ContainsFunc(p.Statements, func(st Statement) bool { return st.demand.DDL })
	if !ddl || len(p.Statements) < 2 {
		return nil
	}
	return p.Cut()
}

// Cut cuts a text as Groups does, whether it need be or not.
func (p *Plan) Cut() (groups [][2]int) {
	joins := false
	for i := range p.Statements {
		st := &p.Statements[i]
		alone := st.demand.DDL || st.Tx.Verb != NoVerb
		if joins && !alone {
			groups[len(groups)-1][1] = i + 1
		} else {
			groups = append(groups, [2]int{i, i + 1})
		}
		joins = !alone
	}
	return groups
}

// TooMuch reports whether a string is known to be too much for one transaction.
func (p *Plan) TooMuch() bool {
	if slices.ContainsFunc(p.Statements, func(st Statement) bool { return st.apart }) {
		return true
	}
	for i := range p.Findings {
		if f := p.Findings[i].Feature; f == SeveralDDL || f == DDLAndDML {
			return true
		}
	}
	return false
}

// defers reports a SET CONSTRAINTS that puts checks off to the end of the transaction.
func defers(m parse.Message) bool { return m.Is("ConstraintsSetStmt") && m.Flag("deferred") }

// destroys reports a DROP of what holds rows: of tables, columns or schemas.
func destroys(m parse.Message) bool {
	switch m.Name() {
	case "DropStmt":
		switch parse.ObjectType(m.Integer("remove_type")) {
		case parse.OBJECT_TABLE, parse.OBJECT_SCHEMA:
			return true
		case parse.OBJECT_TYPE, parse.OBJECT_DOMAIN: // with the columns of it
			return parse.DropBehavior(m.Integer("behavior")) == parse.DROP_CASCADE
		}
	case "AlterTableStmt":
		for cmd := range m.List("cmds") {
			if parse.AlterTableType(cmd.Integer("subtype")) == parse.AT_DropColumn {
				return true
			}
		}
	}
	return false
}

// transactions looks for what DSQL does not take in one transaction: a text
// without BEGIN is one too, when it has several statements.
func (r *rewriter) transactions() {
	if !r.rules.Dialect || len(r.parts) < 2 {
		return
	}
	var b block
	for i := range r.parts {
		p := &r.parts[i]
		f := b.observe(p.st)
		if f == "" {
			continue
		}
		finding := b.finding(f, p.st, r.rules.InTransactions)
		if p.st.Hint == "" {
			p.st.Hint = hint(finding.Remedy)
		}
		r.find(finding)
	}
}

// block follows a transaction. dropped: what was in front of the statement observed last drops.
type block struct{ ddl, dml, drops, dropped bool }

// observe reports what a statement is too much for the transaction; "" for nothing.
func (b *block) observe(st *Statement) Feature {
	switch st.Tx.Verb {
	case Commit, Rollback, PrepareTransaction:
		*b = block{}
		return ""
	}
	already := *b
	b.dropped = b.drops
	switch {
	case st.Refusal != nil:
	case st.demand.DDL:
		b.ddl, b.drops = true, b.drops || st.demand.Drops
		if already.ddl {
			return SeveralDDL
		}
		if already.dml {
			return DDLAndDML
		}
	case st.demand.Rows:
		b.dml = true
		if b.ddl {
			return DDLAndDML
		}
	}
	return ""
}

// finding is what becomes of a statement that is too much: where the relay commits in front of
// it, the transaction that the block follows begins with it.
func (b *block) finding(f Feature, st *Statement, how InTransactions) Finding {
	finding := found(f, st.Start)
	switch {
	case how == RefuseDDL:
	case how == CommitDDL && b.dropped:
		finding.Remedy = dropsRemedy
	default:
		finding = handled(f, Rewritten, Warning, "commits the transaction in front of the statement: a ROLLBACK does not take back what was before", st.Start)
		finding.Remedy = toolsRemedy
		*b = block{ddl: st.demand.DDL, dml: st.demand.Rows, drops: st.demand.Drops}
	}
	finding.Operation = st.Operation
	return finding
}
