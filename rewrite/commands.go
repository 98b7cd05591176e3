package rewrite

import (
	"cmp"
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// ALTER TABLE of several commands, one of which DSQL refuses. Where transactions are committed in
// parts the relay carries the commands out one after the other, each as a statement of its own, in
// the order of PostgreSQL's passes (AT_PASS_*): what is dropped and freed, types, columns that are
// added, defaults, constraints. Two things are otherwise: constraints that are added go together,
// since what one statement adds is taken back together; and columns are dropped at last, so that
// no values are gone where another command fails. A statement to which that would make a
// difference is left to the server.

// Commands is such a statement.
type Commands struct {
	Text  string // the statement
	Parts []Command
}

// Command is a part of it, with what that is when it is planned by itself. It may have several
// commands, all of which add something.
type Command struct {
	Text string // as the server gets it
	St   *Statement
	// Frees is the constraint that it drops; "" for none.
	Frees string
}

// mostCommands bounds the commands of a statement that is carried out one by one.
const mostCommands = 100

// eachCommandAlone tells how to write what is not carried out.
const eachCommandAlone = "Write each command of it in an ALTER TABLE of its own."

// commands looks at an ALTER TABLE of several commands, and leaves to the relay what that may carry
// out. Else the hint names what the first command that is refused would be told.
func (r *rewriter) commands(p *part) bool {
	refused := Feature("")
	for cmd := range p.node.list("cmds") {
		refused = cmp.Or(refused, refusedAlter(cmd))
	}
	if refused == "" || !r.rules.Dialect || len(p.node.values("cmds")) < 2 || len(r.edits) > 0 {
		return false
	}
	p.st.Hint = eachCommandAlone + " To the one that is refused: " + hint(catalogue[refused].remedy)
	switch {
	case len(r.parts) > 1:
		return false
	case r.alone == nil:
		if r.rules.InTransactions == RefuseDDL {
			p.st.Hint += " Or set " + CarryOutKey + " to all: Sluice then carries the commands out one by one, where that means the same."
		}
		return false
	}
	s, ok := r.splitter(p)
	if !ok || !s.gather() {
		p.st.Hint = cmp.Or(s.why, p.st.Hint)
		return false
	}
	p.st.Commands = &Commands{Text: string(r.text[p.st.Start:p.st.End]), Parts: s.parts()}
	p.st.Hint = "Send the statement alone outside of a transaction: its commands are then carried out one by one (" + InTransactionsKey + ")."
	r.find(handled(SeveralDDL, Rewritten, Warning, "carried out command by command, each in a transaction of its own: where one fails, those before it stay", p.st.Start))
	for _, f := range s.findings {
		f.At = p.st.Start
		r.find(f)
	}
	return true
}

// splitter cuts an ALTER TABLE into its commands.
type splitter struct {
	r        *rewriter
	head     string // ALTER TABLE and the table
	cmds     []command
	why      string // a hint, where it cannot be done
	findings []Finding
	passes   [passCount][]Command
}

// command is one with its text.
type command struct {
	message
	sql string
}

// Passes in which commands are carried out.
const (
	dropPass = iota
	typePass
	columnPass   // columns that are added with a default, or without anything
	defaultPass  // of columns that are there
	addPass      // all else that is added
	defaultsPass // of columns that are added
	removePass   // columns that are dropped
	passCount
)

// splitter reads the commands of a statement, whose table must be named in one way only.
func (r *rewriter) splitter(p *part) (*splitter, bool) {
	relation, text := p.node.child("relation"), string(r.text[p.st.Start:p.st.End])
	s := &splitter{r: r}
	if p.node.flag("missing_ok") || relation.text("catalogname") != "" || pg_query.ObjectType(p.node.integer("objtype")) != pg_query.ObjectType_OBJECT_TABLE ||
		len(p.node.values("cmds")) > mostCommands || strings.Contains(text, "--") || strings.Contains(text, "/*") {
		return s, false
	}
	ph := r.phrase(p)
	i := ph.at(relation.integer("location"))
	if i < 0 {
		return s, false
	}
	end := ph.qualified(i)
	if ph.punctuated(end, "*") {
		end++
	}
	s.head = ph.span(0, end)
	for cmd := range p.node.list("cmds") {
		last := ph.ends(end)
		one := command{cmd, ph.span(end, last+1)}
		if !s.verified(one, relation) {
			return s, false
		}
		s.cmds = append(s.cmds, one)
		end = last + 2
	}
	return s, end == len(ph.tokens)+1 && s.apart()
}

// verified reports whether the text of a command alone means what it means in the statement.
func (s *splitter) verified(cmd command, relation message) bool {
	tree, err := parseTree(s.head + " " + cmd.sql)
	if err != nil || len(tree.values("stmts")) != 1 {
		return false
	}
	st := tree.child("stmts").child("stmt")
	return st.is("AlterTableStmt") && len(st.values("cmds")) == 1 && (intents{}).equal(st.child("relation"), relation) && (intents{}).equal(st.child("cmds"), cmd.message)
}

// apart reports whether the commands mean the same one after the other: no column gets two types,
// none that is dropped is named besides, and no constraint is named that may go with one.
func (s *splitter) apart() bool {
	typed, dropped, constrained := map[string]bool{}, []string{}, false
	for _, cmd := range s.cmds {
		name := cmd.text("name")
		switch cmd.kind() {
		case pg_query.AlterTableType_AT_AlterColumnType:
			if typed[name] {
				return false
			}
			typed[name] = true
		case pg_query.AlterTableType_AT_DropColumn:
			dropped = append(dropped, name)
		case pg_query.AlterTableType_AT_AddConstraint, pg_query.AlterTableType_AT_DropConstraint:
			constrained = true
		case pg_query.AlterTableType_AT_AddColumn:
			for constraint := range cmd.child("def").list("constraints") {
				constrained = constrained || constraint.text("conname") != ""
			}
		}
	}
	if constrained && len(dropped) > 0 {
		return false
	}
	if len(dropped) > 1 && s.r.rules.InTransactions != CommitDrops {
		s.why = eachCommandAlone + " Or set " + InTransactionsKey + " to " + CommitDrops.String() + ": columns are then dropped one by one."
		return false
	}
	return !slices.ContainsFunc(dropped, func(column string) bool {
		mentions := 0
		for _, cmd := range s.cmds {
			if cmd.mentions(column) {
				mentions++
			}
		}
		return mentions != 1
	})
}

func (c command) kind() pg_query.AlterTableType {
	return pg_query.AlterTableType(c.integer("subtype"))
}

// mentions reports whether a command names a column in any way.
func (c command) mentions(column string) bool {
	def := c.child("def")
	if c.text("name") == column || def.is("ColumnDef") && def.text("colname") == column {
		return true
	}
	var constraints []message
	switch {
	case def.is("Constraint"):
		constraints = append(constraints, def)
	case def.is("ColumnDef"):
		for constraint := range def.list("constraints") {
			constraints = append(constraints, constraint)
		}
	}
	return slices.ContainsFunc(constraints, func(constraint message) bool {
		refers := slices.ContainsFunc(columnRefs(constraint.child("raw_expr"), nil), func(ref message) bool { return slices.Contains(ref.names("fields"), column) })
		return refers || slices.Contains(constraint.names("keys"), column) ||
			slices.Contains(constraint.names("including"), column) || slices.Contains(constraint.names("fk_attrs"), column) || slices.Contains(constraint.names("pk_attrs"), column)
	})
}

// gather plans each command, and puts it in its pass. false: one cannot be carried out.
func (s *splitter) gather() bool {
	var adds []command
	added := s.added()
	late := false // a column is added with the constraints, and so are those behind it: they keep their order
	for _, cmd := range s.cmds {
		pass := dropPass
		switch cmd.kind() {
		case pg_query.AlterTableType_AT_DropConstraint, pg_query.AlterTableType_AT_DropNotNull, pg_query.AlterTableType_AT_DropIdentity, pg_query.AlterTableType_AT_DropExpression:
		case pg_query.AlterTableType_AT_DropColumn:
			pass = removePass
		case pg_query.AlterTableType_AT_ColumnDefault:
			switch {
			case cmd.child("def").shape == nil:
			case slices.Contains(added, cmd.text("name")):
				pass = defaultsPass
			default:
				pass = defaultPass
			}
		case pg_query.AlterTableType_AT_AlterColumnType:
			pass = typePass
		case pg_query.AlterTableType_AT_AddColumn:
			pass = columnPass
			refused := refusedAlter(cmd.message) != ""
			switch {
			case refused && s.hasDefault(cmd):
				if late || cmd.mentionsOther(added) {
					return false
				}
			case refused || late:
				adds, late = append(adds, cmd), true
				continue
			}
		case pg_query.AlterTableType_AT_AddConstraint, pg_query.AlterTableType_AT_SetNotNull:
			adds = append(adds, cmd)
			continue
		default:
			return false
		}
		if !s.put(pass, cmd.sql, cmd) {
			return false
		}
	}
	return s.putAdds(adds)
}

// added are the columns that are added.
func (s *splitter) added() (columns []string) {
	for _, cmd := range s.cmds {
		if cmd.kind() == pg_query.AlterTableType_AT_AddColumn {
			columns = append(columns, cmd.child("def").text("colname"))
		}
	}
	return columns
}

// hasDefault reports ADD COLUMN with a default that the relay gives to the rows.
func (s *splitter) hasDefault(cmd command) bool {
	st := s.r.alone(s.head+" "+cmd.sql, true).Single()
	return st != nil && st.Alteration != nil
}

// mentionsOther reports whether what ADD COLUMN says names another of the columns that are added.
func (c command) mentionsOther(added []string) bool {
	own := c.child("def").text("colname")
	return slices.ContainsFunc(added, func(column string) bool { return column != own && c.mentions(column) })
}

// put plans a part of the statement.
func (s *splitter) put(pass int, text string, cmd command) bool {
	text = s.head + " " + text
	plan := s.r.alone(text, true)
	st := plan.Single()
	if _, ok := plan.Demand(); !ok || st == nil || st.Refusal != nil || plan.Mapped {
		s.why = eachCommandAlone
		if st != nil && st.Hint != "" {
			s.why = "A command of it is refused by itself, too. To that one: " + st.Hint
		}
		return false
	}
	one := Command{Text: cmp.Or(plan.Text, text), St: st}
	if cmd.kind() == pg_query.AlterTableType_AT_DropConstraint {
		one.Frees = cmd.text("name")
	}
	s.passes[pass] = append(s.passes[pass], one)
	s.findings = append(s.findings, plan.Findings...)
	return true
}

// putAdds puts what is added: together, where that is what the relay carries out by steps.
func (s *splitter) putAdds(adds []command) bool {
	texts := make([]string, len(adds))
	for i, cmd := range adds {
		texts[i] = cmd.sql
	}
	if len(adds) > 1 {
		text := strings.Join(texts, ", ")
		if st := s.r.alone(s.head+" "+text, true).Single(); st != nil && st.Constraints != nil && len(st.Constraints.Adds) > 0 {
			return s.put(addPass, text, adds[0])
		}
	}
	slices.SortStableFunc(adds, func(a, b command) int { return addOrder(a) - addOrder(b) })
	for _, cmd := range adds {
		if !s.put(addPass, cmd.sql, cmd) {
			return false
		}
	}
	return true
}

// addOrder has columns first, then UNIQUE, then what looks at rows.
func addOrder(cmd command) int {
	switch {
	case cmd.kind() == pg_query.AlterTableType_AT_AddColumn:
		return 0
	case constraintIs(cmd.child("def"), pg_query.ConstrType_CONSTR_UNIQUE):
		return 1
	}
	return 2
}

// parts are all of them in their order.
func (s *splitter) parts() []Command { return slices.Concat(s.passes[:]...) }
