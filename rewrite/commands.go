package rewrite

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
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
	for cmd := range p.node.List("cmds") {
		refused = cmp.Or(refused, refusedAlter(cmd))
	}
	if refused == "" || !r.rules.Dialect || len(p.node.Values("cmds")) < 2 || len(r.edits) > 0 {
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
	p.st.Does, p.st.Commands = Alters, &Commands{Text: string(r.text[p.st.Start:p.st.End]), Parts: s.parts()}
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
	parse.Message
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
	relation, text := p.node.Child("relation"), string(r.text[p.st.Start:p.st.End])
	s := &splitter{r: r}
	if p.node.Flag("missing_ok") || relation.Text("catalogname") != "" || parse.ObjectType(p.node.Integer("objtype")) != parse.OBJECT_TABLE ||
		len(p.node.Values("cmds")) > mostCommands || strings.Contains(text, "--") || strings.Contains(text, "/*") {
		return s, false
	}
	ph := r.phrase(p)
	i := ph.At(relation.Integer("location"))
	if i < 0 {
		return s, false
	}
	end := ph.Qualified(i)
	if ph.Punctuated(end, "*") {
		end++
	}
	s.head = ph.Span(0, end)
	for cmd := range p.node.List("cmds") {
		last := ph.Ends(end)
		one := command{cmd, ph.Span(end, last+1)}
		if !s.verified(one, relation) {
			return s, false
		}
		s.cmds = append(s.cmds, one)
		end = last + 2
	}
	return s, end == len(ph.Tokens)+1 && s.apart()
}

// verified reports whether the text of a command alone means what it means in the statement.
func (s *splitter) verified(cmd command, relation parse.Message) bool {
	tree, err := parse.Tree(s.head + " " + cmd.sql)
	if err != nil || len(tree.Values("stmts")) != 1 {
		return false
	}
	st := tree.Child("stmts").Child("stmt")
	return st.Is("AlterTableStmt") && len(st.Values("cmds")) == 1 && (parse.Intents{}).Equal(st.Child("relation"), relation) && (parse.Intents{}).Equal(st.Child("cmds"), cmd.Message)
}

// apart reports whether the commands mean the same one after the other: no column gets two types,
// none that is dropped is named besides, and no constraint is named that may go with one.
func (s *splitter) apart() bool {
	typed, dropped, constrained := map[string]bool{}, []string{}, false
	for _, cmd := range s.cmds {
		name := cmd.Text("name")
		switch cmd.kind() {
		case parse.AT_AlterColumnType:
			if typed[name] {
				return false
			}
			typed[name] = true
		case parse.AT_DropColumn:
			dropped = append(dropped, name)
		case parse.AT_AddConstraint, parse.AT_DropConstraint:
			constrained = true
		case parse.AT_AddColumn:
			for constraint := range cmd.Child("def").List("constraints") {
				constrained = constrained || constraint.Text("conname") != ""
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

func (c command) kind() parse.AlterTableType {
	return parse.AlterTableType(c.Integer("subtype"))
}

// mentions reports whether a command names a column in any way.
func (c command) mentions(column string) bool {
	def := c.Child("def")
	if c.Text("name") == column || def.Is("ColumnDef") && def.Text("colname") == column {
		return true
	}
	var constraints []parse.Message
	switch {
	case def.Is("Constraint"):
		constraints = append(constraints, def)
	case def.Is("ColumnDef"):
		for constraint := range def.List("constraints") {
			constraints = append(constraints, constraint)
		}
	}
	return slices.ContainsFunc(constraints, func(constraint parse.Message) bool {
		refers := slices.ContainsFunc(columnRefs(constraint.Child("raw_expr"), nil), func(ref parse.Message) bool { return slices.Contains(ref.Names("fields"), column) })
		return refers || slices.Contains(constraint.Names("keys"), column) ||
			slices.Contains(constraint.Names("including"), column) || slices.Contains(constraint.Names("fk_attrs"), column) || slices.Contains(constraint.Names("pk_attrs"), column)
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
		case parse.AT_DropConstraint, parse.AT_DropNotNull, parse.AT_DropIdentity, parse.AT_DropExpression:
		case parse.AT_DropColumn:
			pass = removePass
		case parse.AT_ColumnDefault:
			switch {
			case cmd.Child("def").Shape == nil:
			case slices.Contains(added, cmd.Text("name")):
				pass = defaultsPass
			default:
				pass = defaultPass
			}
		case parse.AT_AlterColumnType:
			pass = typePass
		case parse.AT_AddColumn:
			pass = columnPass
			refused := refusedAlter(cmd.Message) != ""
			switch {
			case refused && s.hasDefault(cmd):
				if late || cmd.mentionsOther(added) {
					return false
				}
			case refused || late:
				adds, late = append(adds, cmd), true
				continue
			}
		case parse.AT_AddConstraint, parse.AT_SetNotNull:
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
		if cmd.kind() == parse.AT_AddColumn {
			columns = append(columns, cmd.Child("def").Text("colname"))
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
	own := c.Child("def").Text("colname")
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
	if cmd.kind() == parse.AT_DropConstraint {
		one.Frees = cmd.Text("name")
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
	case cmd.kind() == parse.AT_AddColumn:
		return 0
	case parse.ConstraintIs(cmd.Child("def"), parse.CONSTR_UNIQUE):
		return 1
	}
	return 2
}

// parts are all of them in their order.
func (s *splitter) parts() []Command { return slices.Concat(s.passes[:]...) }
