package bytea

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Oracle compares two databases by worlds. A world is a random schema with statements, which the Oracle runs in both
// databases.
type Oracle struct {
	// Begin creates a world (a random schema with rows) in two empty databases, and returns a client of each. Client
	// stock is in a plain PostgreSQL, and client mapped in a database that stores bytea keys as text.
	Begin func(ctx context.Context, w *TestSchema) (stock, mapped *Client, err error)
	// Statements is the number of statements in a world (a random schema).
	Statements int
	// ShrinkTries bounds the attempts to make a differing statement smaller.
	ShrinkTries int
	// MaxDifferences is the number of differences after which the oracle ends. 0 means that one difference ends it.
	MaxDifferences int
	// Autocommit runs writing statements outside of a transaction. The mapped database (bytea keys stored as text) finds
	// some errors only at a commit. A world ends at a writing statement that differs or is refused.
	Autocommit bool

	// Exclude reports whether the oracle must skip a statement or a schema, because one of the databases cannot answer
	// it.
	Exclude func(text string) bool
	Tally   Tally
}

// Tally counts, by outcome, the statements whose answers the oracle has compared.
type Tally struct {
	Worlds, Statements, Rewritten, Answered, Rows, Writes int
	BothFail                                              map[string]int // by SQLSTATE
	Refused                                               map[string]int
	Differ                                                map[string]int // pairs of SQLSTATEs
	Mismatches                                            []string
	Refusals                                              []string // one text for each reason
}

// RunSchema compares the two databases by world n of a seed: it creates the random schema and runs its statements.
func (o *Oracle) RunSchema(ctx context.Context, seed, n uint64) error {
	w := NewTestSchema(seed, n)
	apart := func(text string) bool { return o.Exclude != nil && o.Exclude(text) }
	if apart(w.String()) {
		return nil
	}
	stock, mapped, err := o.Begin(ctx, w)
	if err != nil {
		return fmt.Errorf("world %d of seed %d: %w\n%s", n, seed, err, w)
	}
	o.Tally.Worlds++
	p := &schemaRun{oracle: o, world: w, stock: stock, mapped: mapped}
	for _, s := range w.initialRows(newChoiceSequence(seed, n<<32+1)) {
		if apart(s.text) {
			continue
		}
		if err := p.compareInBoth(ctx, s, nil); err != nil {
			return err
		}
	}
	for i := range o.Statements {
		d := newChoiceSequence(seed, n<<32+2+uint64(i))
		s := w.newStatement(d)
		if apart(s.text) {
			continue
		}
		if err := p.compareInBoth(ctx, s, d.made); err != nil {
			return fmt.Errorf("world %d of seed %d, statement %d: %w\n%s", n, seed, i, err, w.newStatement(newChoiceSequence(seed, n<<32+2+uint64(i))))
		}
		if p.found != "" {
			o.Tally.Mismatches = append(o.Tally.Mismatches, fmt.Sprintf("world %d of seed %d, statement %d: %s", n, seed, i, p.found))
			p.found = ""
		}
		if len(o.Tally.Mismatches) > o.MaxDifferences || p.diverged {
			break
		}
	}
	return nil
}

// initialRows returns the statements that insert the first rows of each table in the schema.
func (w *TestSchema) initialRows(d *choiceSequence) []statement {
	var all []statement
	for _, t := range w.Tables {
		if t.Of != nil {
			continue
		}
		for range 8 {
			var values []string
			for _, c := range t.Columns {
				v := w.drawConstant(d, c.Type)
				if !c.NotNull && d.chance(20) {
					v = "NULL"
				}
				values = append(values, v)
			}
			text := "INSERT INTO " + QuoteIdent(t.Name) + " (" + joinIdents(t.columnNames()) + ") VALUES (" + strings.Join(values, ", ") + ") ON CONFLICT DO NOTHING"
			all = append(all, statement{text: text, table: t})
		}
	}
	return all
}

func (w *TestSchema) String() string {
	var all []string
	for _, t := range w.Tables {
		all = append(all, t.DDL()+";")
	}
	return strings.Join(all, "\n")
}

// schemaRun is the run of one world (a random schema with its statements).
type schemaRun struct {
	oracle        *Oracle
	world         *TestSchema
	stock, mapped *Client
	found         string
	diverged      bool // the tables are no longer equal
}

// compareInBoth runs a statement in both databases and counts the outcome. If a writing statement differs or is
// refused, it is rolled back, so that the tables remain equal. With Oracle.Autocommit a rollback is not possible.
func (p *schemaRun) compareInBoth(ctx context.Context, s statement, made []int) error {
	stock, mapped, v, err := p.runInBoth(ctx, s)
	if err != nil {
		return fmt.Errorf("%s: %w", s.text, err)
	}
	if v.kind == same && s.table != nil {
		if v, err = p.compareTables(ctx, s); err != nil {
			return err
		}
	}
	if err := p.endTransaction(ctx, s, v.kind == same); err != nil {
		return err
	}
	p.diverged = p.oracle.Autocommit && s.table != nil && (v.kind == mismatch || v.kind == refused)
	t := &p.oracle.Tally
	t.Statements++
	if mapped.sent != s.text {
		t.Rewritten++
	}
	switch v.kind {
	case same:
		t.Answered++
		t.Rows += len(stock.rows)
		if s.table != nil {
			t.Writes++
		}
	case bothFail:
		countIn(&t.BothFail, stock.code)
	case codesDiffer:
		countIn(&t.Differ, v.text)
	case refused:
		if t.Refused[v.text] == 0 {
			t.Refusals = append(t.Refusals, v.text+": "+s.String())
		}
		countIn(&t.Refused, v.text)
	case mismatch:
		p.found = p.explainDifference(ctx, s, made, v, mapped)
	}
	return nil
}

// endTransaction ends the transaction of a writing statement in both databases, by COMMIT if keep is true and else by
// ROLLBACK. With Oracle.Autocommit it does nothing.
func (p *schemaRun) endTransaction(ctx context.Context, s statement, keep bool) error {
	how := "ROLLBACK"
	if keep {
		how = "COMMIT"
	}
	if s.table == nil || p.oracle.Autocommit {
		return nil
	}
	return p.execInBoth(ctx, how)
}

// execInBoth runs a text in both databases.
func (p *schemaRun) execInBoth(ctx context.Context, text string) error {
	for _, c := range []*Client{p.stock, p.mapped} {
		if _, err := c.Conn.Exec(ctx, text).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

func countIn(counts *map[string]int, what string) {
	if *counts == nil {
		*counts = map[string]int{}
	}
	(*counts)[what]++
}

// runInBoth runs a statement in both databases and compares the outcomes. The transaction of a writing statement
// stays open.
func (p *schemaRun) runInBoth(ctx context.Context, s statement) (stock, mapped statementOutcome, v comparisonResult, err error) {
	if s.table != nil && !p.oracle.Autocommit {
		if err = p.execInBoth(ctx, "BEGIN"); err != nil {
			return
		}
	}
	if mapped, err = p.mapped.runStatement(ctx, s); err != nil {
		return
	}
	if stock, err = p.stock.runStatement(ctx, s); err != nil {
		return
	}
	return stock, mapped, compareOutcomes(s, stock, mapped), nil
}

// compareTables compares all tables after a statement that has succeeded in both databases.
func (p *schemaRun) compareTables(ctx context.Context, s statement) (comparisonResult, error) {
	for _, t := range p.world.Tables {
		if t.Of != nil {
			continue
		}
		a, err := p.stock.tableRows(ctx, t)
		if err != nil {
			return comparisonResult{}, err
		}
		b, err := p.mapped.tableRows(ctx, t)
		if err != nil {
			return comparisonResult{}, err
		}
		if diff := describeRowDifference(a, b); diff != "" {
			return comparisonResult{mismatch, "it leaves in " + t.Name + " other " + diff}, nil
		}
	}
	return comparisonResult{same, ""}, nil
}

// explainDifference shrinks a differing statement and returns its description.
func (p *schemaRun) explainDifference(ctx context.Context, s statement, made []int, v comparisonResult, mapped statementOutcome) string {
	shrinkList(made, p.oracle.ShrinkTries, func(list []int) bool {
		t := p.world.newStatement(&choiceSequence{given: list})
		if p.diverged || p.oracle.Autocommit && t.table != nil {
			return false
		}
		_, m, found, err := p.runInBoth(ctx, t)
		if err == nil && found.kind == same && t.table != nil {
			found, err = p.compareTables(ctx, t)
		}
		if p.endTransaction(ctx, t, false) != nil || err != nil || found.kind != mismatch {
			return false
		}
		s, v, mapped = t, found, m
		return true
	})
	return fmt.Sprintf("%s\nsent: %s\n%s\nin\n%s", s, mapped.sent, v.text, p.world)
}

func (s statement) String() string {
	text := s.text
	for i, p := range s.params {
		text += fmt.Sprintf("\n  $%d = %q", i+1, p.value)
		if p.value == nil {
			text += " (NULL)"
		}
		if p.binary {
			text += " in binary"
		}
		if p.oid != 0 {
			text += fmt.Sprintf(" as type %d", p.oid)
		}
	}
	return text
}

// ExcessProblem returns which count of the tally exceeds its bound, or "" if none does. The bounds are on refused
// statements, and on statements that only one database evaluates fully.
func (t *Tally) ExcessProblem() string {
	if refused := sumCounts(t.Refused); refused*100 > t.Statements {
		return fmt.Sprintf("%d of %d statements are refused", refused, t.Statements)
	}
	if odd := t.Differ[oneEvaluates]; odd > 1+t.Statements/2000 {
		return fmt.Sprintf("%d of %d statements: %s", odd, t.Statements, oneEvaluates)
	}
	return ""
}

func sumCounts(counts map[string]int) int {
	n := 0
	for _, k := range counts {
		n += k
	}
	return n
}

// String returns the report of the tally.
func (t *Tally) String() string {
	text := fmt.Sprintf("%d worlds, %d statements, %d of them rewritten here: %d answered (%d rows, %d writes, all tables compared behind each), %d fail in both, %d with another SQLSTATE, %d refused, %d mismatches",
		t.Worlds, t.Statements, t.Rewritten, t.Answered, t.Rows, t.Writes, sumCounts(t.BothFail), sumCounts(t.Differ), sumCounts(t.Refused), len(t.Mismatches))
	text += fmt.Sprintf("\n  failures: %v", t.BothFail)
	for _, pair := range slices.Sorted(maps.Keys(t.Differ)) {
		text += fmt.Sprintf("\n  %s: %d", pair, t.Differ[pair])
	}
	return text + "\n" + strings.Join(t.Refusals, "\n")
}
