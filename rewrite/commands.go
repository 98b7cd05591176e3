package rewrite

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// An ALTER TABLE of several commands, one of which DSQL refuses, can be carried out command by command. The order is
// that of PostgreSQL's passes (AT_PASS_*) with two exceptions. Added constraints stay in one statement, so that they
// are undone together. Columns are dropped last, so that no values are lost if a command fails.

// Commands is an ALTER TABLE that Sluice carries out command by command.
type Commands struct {
	Text  string // the client's statement
	Parts []Command
}

// Command is a part of a Commands with its plan. A part of several commands only adds columns and constraints.
type Command struct {
	Text string // the text for the server
	St   *Statement
	// Frees is the name of the constraint that the command drops; "" for none.
	Frees string
}

// mostCommands is the maximum number of commands in a statement that Sluice carries out.
const mostCommands = 100

// eachCommandAlone is the advice for an ALTER TABLE that Sluice does not carry out.
const eachCommandAlone = "Write each command of it in an ALTER TABLE of its own."

// commands plans an ALTER TABLE of several commands, and reports whether Sluice carries it out. Otherwise the
// hint is that of the first refused command.
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

// splitter divides an ALTER TABLE into its commands.
type splitter struct {
	r        *rewriter
	head     string // ALTER TABLE and the table's name
	cmds     []command
	why      string // the hint for the client, if the statement cannot be divided
	findings []Finding
	passes   [passCount][]Command
}

// command is one command of an ALTER TABLE with its text.
type command struct {
	parse.Message
	sql string
}

// The passes of an ALTER TABLE, in the order in which its commands run.
const (
	dropPass = iota
	typePass
	columnPass   // new columns with a default, or without constraints
	defaultPass  // defaults of existing columns
	addPass      // all other additions
	defaultsPass // defaults of new columns
	removePass   // dropped columns
	passCount
)

// splitter returns the commands of an ALTER TABLE. ok is false if the statement cannot be divided.
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
	return s, end == len(ph.Tokens)+1 && s.independent()
}

// verified reports whether a command has the same meaning in a separate statement.
func (s *splitter) verified(cmd command, relation parse.Message) bool {
	tree, err := parse.Tree(s.head + " " + cmd.sql)
	if err != nil || len(tree.Values("stmts")) != 1 {
		return false
	}
	st := tree.Child("stmts").Child("stmt")
	return st.Is("AlterTableStmt") && len(st.Values("cmds")) == 1 && (parse.Intents{}).Equal(st.Child("relation"), relation) && (parse.Intents{}).Equal(st.Child("cmds"), cmd.Message)
}

// independent reports whether the commands have the same meaning one after the other. It returns false if a column gets
// two types, if a dropped column occurs in another command, or for a named constraint next to a dropped column.
func (s *splitter) independent() bool {
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

// mentions reports whether a command names a column.
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

// gather plans all commands and sorts them into passes. It returns false if one cannot be carried out.
func (s *splitter) gather() bool {
	var adds []command
	added := s.added()
	late := false // a new column depends on constraints; later columns follow it to keep their order
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

// added returns the names of new columns.
func (s *splitter) added() (columns []string) {
	for _, cmd := range s.cmds {
		if cmd.kind() == parse.AT_AddColumn {
			columns = append(columns, cmd.Child("def").Text("colname"))
		}
	}
	return columns
}

// hasDefault reports whether a command is an ADD COLUMN with a DEFAULT that Sluice carries out.
func (s *splitter) hasDefault(cmd command) bool {
	st := s.r.alone(s.head+" "+cmd.sql, true).Single()
	return st != nil && st.Alteration != nil
}

// mentionsOther reports whether an ADD COLUMN names another new column.
func (c command) mentionsOther(added []string) bool {
	own := c.Child("def").Text("colname")
	return slices.ContainsFunc(added, func(column string) bool { return column != own && c.mentions(column) })
}

// put plans text as a part of the statement in a pass.
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

// putAdds plans the commands that add columns and constraints, as one part if Sluice can run them together.
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

// addOrder sorts additions: columns, then UNIQUE, then constraints that check rows.
func addOrder(cmd command) int {
	switch {
	case cmd.kind() == parse.AT_AddColumn:
		return 0
	case parse.ConstraintIs(cmd.Child("def"), parse.CONSTR_UNIQUE):
		return 1
	}
	return 2
}

// parts returns all parts of the ALTER TABLE in the order of the passes.
func (s *splitter) parts() []Command { return slices.Concat(s.passes[:]...) }
