package rewrite

import (
	"cmp"
	"slices"
	"strings"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/alter"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Sluice can carry out an ALTER TABLE of several commands one by one, if DSQL refuses a command. The order is that of
// PostgreSQL's passes (AT_PASS_*) with two exceptions. Added constraints share one statement, so that Sluice undoes
// them together. Drops of columns come last, so that no values are lost if a command fails.

// MultiCommand is an ALTER TABLE of several commands that Sluice carries out one by one.
type MultiCommand struct {
	Text  string // the client's statement
	Parts []AlterCommand
}

// TextAndTag implements alter.Steps: it returns the client's ALTER TABLE and its command tag.
func (c *MultiCommand) TextAndTag() (text, tag string) { return c.Text, "ALTER TABLE" }

// Bytes implements alter.Steps: it estimates the memory of the plan in bytes.
func (c *MultiCommand) Bytes(int) int {
	n := int(unsafe.Sizeof(*c)) + len(c.Text)
	for i := range c.Parts {
		n += c.Parts[i].bytes()
	}
	return n
}

// AlterCommand is one command of a MultiCommand with its plan, or several commands that add columns and constraints.
type AlterCommand struct {
	Text string // the ALTER TABLE for the server
	St   *Statement
	// DroppedConstraint is the name of the constraint that the command drops, or "" for none.
	DroppedConstraint string
}

// mostCommands is the maximum number of commands in an ALTER TABLE that Sluice carries out.
const mostCommands = 100

// eachCommandAlone is the advice for an ALTER TABLE of several commands that Sluice cannot carry out.
const eachCommandAlone = "Write each command of it in an ALTER TABLE of its own."

// planMultiCommand plans an ALTER TABLE of several commands. If Sluice does not carry out the statement, the statement
// gets the hint of the first command that DSQL refuses.
func (r *rewriter) planMultiCommand(p *statementPart) {
	refused := finding.Feature("")
	for cmd := range p.node.List("cmds") {
		refused = cmp.Or(refused, alter.RefusedFeature(cmd))
	}
	if refused == "" || !r.rules.Dialect || len(p.node.Values("cmds")) < 2 || len(r.edits) > 0 {
		return
	}
	p.st.Hint = eachCommandAlone + " To the one that is refused: " + finding.Sentence(finding.Remedy(refused))
	switch {
	case len(r.parts) > 1:
		return
	case r.alone == nil:
		if r.rules.InTransactions == RefuseDDL {
			p.st.Hint += " Or set " + CarryOutKey + " to all: Sluice then carries the commands out one by one, where that means the same."
		}
		return
	}
	s, ok := r.newCommandSplitter(p)
	if !ok || !s.planCommands() {
		p.st.Hint = cmp.Or(s.why, p.st.Hint)
		return
	}
	p.st.Does, p.st.Steps = Alters, &MultiCommand{Text: string(r.text[p.st.Start:p.st.End]), Parts: s.orderedParts()}
	p.st.Hint = "Send the statement alone outside of a transaction: its commands are then carried out one by one (" + InTransactionsKey + ")."
	r.addFinding(finding.Handled(finding.SeveralDDL, finding.Rewritten, finding.Warning, "carried out command by command, each in a transaction of its own: where one fails, those before it stay", p.st.Start))
	for _, f := range s.findings {
		f.At = p.st.Start
		r.addFinding(f)
	}
}

// commandSplitter divides an ALTER TABLE into its commands.
type commandSplitter struct {
	r        *rewriter
	head     string // ALTER TABLE and the table's name, which precede each command
	cmds     []alterSubcommand
	why      string // the hint for the client if Sluice cannot divide the statement
	findings []finding.Finding
	passes   [passCount][]AlterCommand
}

// alterSubcommand is one command of an ALTER TABLE, as a parse tree and as text.
type alterSubcommand struct {
	parse.TreeNode
	sql string
}

// These are the passes in which Sluice runs the commands of an ALTER TABLE. The passes run in this order.
const (
	dropPass = iota
	typePass
	columnPass   // adds columns with a default, or without constraints
	defaultPass  // changes defaults of existing columns
	addPass      // adds all other columns and constraints
	defaultsPass // sets defaults of new columns
	removePass   // drops columns
	passCount
)

// newCommandSplitter returns the commands of an ALTER TABLE. ok is false if Sluice cannot divide the statement.
func (r *rewriter) newCommandSplitter(p *statementPart) (*commandSplitter, bool) {
	relation, text := p.node.Child("relation"), string(r.text[p.st.Start:p.st.End])
	s := &commandSplitter{r: r}
	if p.node.Flag("missing_ok") || relation.Text("catalogname") != "" || parse.ObjectType(p.node.Integer("objtype")) != parse.OBJECT_TABLE ||
		len(p.node.Values("cmds")) > mostCommands || strings.Contains(text, "--") || strings.Contains(text, "/*") {
		return s, false
	}
	ph := r.statementTokens(p)
	i := ph.TokenAt(relation.Integer("location"))
	if i < 0 {
		return s, false
	}
	end := ph.AfterQualifiedName(i)
	if ph.IsOperator(end, "*") {
		end++
	}
	s.head = ph.TextBetween(0, end)
	for cmd := range p.node.List("cmds") {
		last := ph.ParenItemEnd(end)
		one := alterSubcommand{cmd, ph.TextBetween(end, last+1)}
		if !s.verifiesCommand(one, relation) {
			return s, false
		}
		s.cmds = append(s.cmds, one)
		end = last + 2
	}
	return s, end == len(ph.Tokens)+1 && s.areIndependent()
}

// verifiesCommand reports whether a command of an ALTER TABLE has the same meaning as a separate ALTER TABLE.
func (s *commandSplitter) verifiesCommand(cmd alterSubcommand, relation parse.TreeNode) bool {
	tree, err := parse.Tree(s.head + " " + cmd.sql)
	if err != nil || len(tree.Values("stmts")) != 1 {
		return false
	}
	st := tree.Child("stmts").Child("stmt")
	return st.Is("AlterTableStmt") && len(st.Values("cmds")) == 1 && (parse.TreeChanges{}).Equal(st.Child("relation"), relation) && (parse.TreeChanges{}).Equal(st.Child("cmds"), cmd.TreeNode)
}

// areIndependent reports whether the commands have the same meaning if they run one by one. It returns false if a
// column gets two types, if a dropped column occurs in another command, or for a named constraint beside a DROP.
func (s *commandSplitter) areIndependent() bool {
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
			if cmd.mentionsColumn(column) {
				mentions++
			}
		}
		return mentions != 1
	})
}

func (c alterSubcommand) kind() parse.AlterTableType {
	return parse.AlterTableType(c.Integer("subtype"))
}

// mentionsColumn reports whether a command of an ALTER TABLE names a column.
func (c alterSubcommand) mentionsColumn(column string) bool {
	def := c.Child("def")
	if c.Text("name") == column || def.Is("ColumnDef") && def.Text("colname") == column {
		return true
	}
	var constraints []parse.TreeNode
	switch {
	case def.Is("Constraint"):
		constraints = append(constraints, def)
	case def.Is("ColumnDef"):
		for constraint := range def.List("constraints") {
			constraints = append(constraints, constraint)
		}
	}
	return slices.ContainsFunc(constraints, func(constraint parse.TreeNode) bool {
		refers := slices.ContainsFunc(parse.AppendColumnRefs(constraint.Child("raw_expr"), nil), func(ref parse.TreeNode) bool { return slices.Contains(ref.Names("fields"), column) })
		return refers || slices.Contains(constraint.Names("keys"), column) ||
			slices.Contains(constraint.Names("including"), column) || slices.Contains(constraint.Names("fk_attrs"), column) || slices.Contains(constraint.Names("pk_attrs"), column)
	})
}

// planCommands plans all commands and sorts them into passes. It returns false if Sluice cannot carry out a command.
func (s *commandSplitter) planCommands() bool {
	var adds []alterSubcommand
	added := s.addedColumns()
	late := false // a new column depends on constraints, so later columns wait for it to preserve their order
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
			refused := alter.RefusedFeature(cmd.TreeNode) != ""
			switch {
			case refused && s.addsWithDefault(cmd):
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
		if !s.planInPass(pass, cmd.sql, cmd) {
			return false
		}
	}
	return s.planAdditions(adds)
}

// addedColumns returns the names of the columns that the ALTER TABLE adds.
func (s *commandSplitter) addedColumns() (columns []string) {
	for _, cmd := range s.cmds {
		if cmd.kind() == parse.AT_AddColumn {
			columns = append(columns, cmd.Child("def").Text("colname"))
		}
	}
	return columns
}

// addsWithDefault reports whether a command is an ADD COLUMN with a DEFAULT that Sluice can carry out.
func (s *commandSplitter) addsWithDefault(cmd alterSubcommand) bool {
	st := s.r.alone(s.head+" "+cmd.sql, true).SingleStatement()
	if st == nil {
		return false
	}
	_, is := st.Steps.(*alter.Alteration)
	return is
}

// mentionsOther reports whether an ADD COLUMN names a column that the same ALTER TABLE adds by another command.
func (c alterSubcommand) mentionsOther(added []string) bool {
	own := c.Child("def").Text("colname")
	return slices.ContainsFunc(added, func(column string) bool { return column != own && c.mentionsColumn(column) })
}

// planInPass plans a command as a separate ALTER TABLE in a pass. It returns false if Sluice cannot carry it out.
func (s *commandSplitter) planInPass(pass int, text string, cmd alterSubcommand) bool {
	text = s.head + " " + text
	plan := s.r.alone(text, true)
	st := plan.SingleStatement()
	if _, ok := plan.Demand(); !ok || st == nil || st.Refusal != nil || plan.Mapped {
		s.why = eachCommandAlone
		if st != nil && st.Hint != "" {
			s.why = "A command of it is refused by itself, too. To that one: " + st.Hint
		}
		return false
	}
	one := AlterCommand{Text: cmp.Or(plan.Text, text), St: st}
	if cmd.kind() == parse.AT_DropConstraint {
		one.DroppedConstraint = cmd.Text("name")
	}
	s.passes[pass] = append(s.passes[pass], one)
	s.findings = append(s.findings, plan.Findings...)
	return true
}

// planAdditions plans commands that add columns and constraints, as one AlterCommand if they can run together.
func (s *commandSplitter) planAdditions(adds []alterSubcommand) bool {
	texts := make([]string, len(adds))
	for i, cmd := range adds {
		texts[i] = cmd.sql
	}
	if len(adds) > 1 {
		text := strings.Join(texts, ", ")
		if st := s.r.alone(s.head+" "+text, true).SingleStatement(); st != nil {
			if c, is := st.Steps.(*alter.AddedConstraints); is && len(c.Adds) > 0 {
				return s.planInPass(addPass, text, adds[0])
			}
		}
	}
	slices.SortStableFunc(adds, func(a, b alterSubcommand) int { return addOrder(a) - addOrder(b) })
	for _, cmd := range adds {
		if !s.planInPass(addPass, cmd.sql, cmd) {
			return false
		}
	}
	return true
}

// addOrder ranks an added column or constraint: columns first, then UNIQUE, then constraints that check rows.
func addOrder(cmd alterSubcommand) int {
	switch {
	case cmd.kind() == parse.AT_AddColumn:
		return 0
	case parse.ConstraintIs(cmd.Child("def"), parse.CONSTR_UNIQUE):
		return 1
	}
	return 2
}

// orderedParts returns the AlterCommands of all passes, in the order of the passes.
func (s *commandSplitter) orderedParts() []AlterCommand { return slices.Concat(s.passes[:]...) }
