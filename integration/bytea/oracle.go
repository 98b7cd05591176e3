package bytea

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Oracle plays worlds in two databases. A world is a random schema with statements.
type Oracle struct {
	// Begin creates a world in two empty databases, and returns a client of each.
	Begin func(ctx context.Context, w *World) (stock, mapped *Client, err error)
	// Statements is the number of statements in a world.
	Statements int
	// Shrink bounds the attempts to make a differing statement smaller.
	Shrink int
	// Most is the number of differences after which the oracle ends; 0 means one.
	Most int
	// Autocommit runs writing statements outside of a transaction, because the mapped database finds some errors only at a
	// commit. A world ends at a writing statement that differs or is refused.
	Autocommit bool

	// Apart reports whether to skip a statement or a world, because one of the databases cannot answer it.
	Apart func(text string) bool
	Tally Tally
}

// Tally counts the outcomes of the statements.
type Tally struct {
	Worlds, Statements, Rewritten, Answered, Rows, Writes int
	BothFail                                              map[string]int // by SQLSTATE
	Refused                                               map[string]int
	Differ                                                map[string]int // pairs of SQLSTATEs
	Mismatches                                            []string
	Refusals                                              []string // one text for each reason
}

// Play plays world n of a seed.
func (o *Oracle) Play(ctx context.Context, seed, n uint64) error {
	w := NewWorld(seed, n)
	apart := func(text string) bool { return o.Apart != nil && o.Apart(text) }
	if apart(w.String()) {
		return nil
	}
	stock, mapped, err := o.Begin(ctx, w)
	if err != nil {
		return fmt.Errorf("world %d of seed %d: %w\n%s", n, seed, err, w)
	}
	o.Tally.Worlds++
	p := &play{oracle: o, world: w, stock: stock, mapped: mapped}
	for _, s := range w.filling(newDraw(seed, n<<32+1)) {
		if apart(s.text) {
			continue
		}
		if err := p.both(ctx, s, nil); err != nil {
			return err
		}
	}
	for i := range o.Statements {
		d := newDraw(seed, n<<32+2+uint64(i))
		s := w.statement(d)
		if apart(s.text) {
			continue
		}
		if err := p.both(ctx, s, d.made); err != nil {
			return fmt.Errorf("world %d of seed %d, statement %d: %w\n%s", n, seed, i, err, w.statement(newDraw(seed, n<<32+2+uint64(i))))
		}
		if p.found != "" {
			o.Tally.Mismatches = append(o.Tally.Mismatches, fmt.Sprintf("world %d of seed %d, statement %d: %s", n, seed, i, p.found))
			p.found = ""
		}
		if len(o.Tally.Mismatches) > o.Most || p.diverged {
			break
		}
	}
	return nil
}

// filling returns the statements that insert the first rows of each table.
func (w *World) filling(d *draw) []statement {
	var all []statement
	for _, t := range w.Tables {
		if t.Of != nil {
			continue
		}
		for range 8 {
			var values []string
			for _, c := range t.Columns {
				v := w.constant(d, c.Type)
				if !c.NotNull && d.chance(20) {
					v = "NULL"
				}
				values = append(values, v)
			}
			text := "INSERT INTO " + Ident(t.Name) + " (" + idents(t.names()) + ") VALUES (" + strings.Join(values, ", ") + ") ON CONFLICT DO NOTHING"
			all = append(all, statement{text: text, table: t})
		}
	}
	return all
}

func (w *World) String() string {
	var all []string
	for _, t := range w.Tables {
		all = append(all, t.DDL()+";")
	}
	return strings.Join(all, "\n")
}

// play is the run of one world.
type play struct {
	oracle        *Oracle
	world         *World
	stock, mapped *Client
	found         string
	diverged      bool // the tables are no longer equal
}

// both runs a statement in both databases and counts the outcome. If a writing statement differs or is refused, both
// rolls it back, so that the tables remain equal. With Oracle.Autocommit it cannot roll back.
func (p *play) both(ctx context.Context, s statement, made []int) error {
	stock, mapped, v, err := p.try(ctx, s)
	if err != nil {
		return fmt.Errorf("%s: %w", s.text, err)
	}
	if v.kind == same && s.table != nil {
		if v, err = p.tables(ctx, s); err != nil {
			return err
		}
	}
	if err := p.end(ctx, s, v.kind == same); err != nil {
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
		add(&t.BothFail, stock.code)
	case codesDiffer:
		add(&t.Differ, v.text)
	case refused:
		if t.Refused[v.text] == 0 {
			t.Refusals = append(t.Refusals, v.text+": "+s.String())
		}
		add(&t.Refused, v.text)
	case mismatch:
		p.found = p.explain(ctx, s, made, v, mapped)
	}
	return nil
}

// end ends the transaction of a writing statement.
func (p *play) end(ctx context.Context, s statement, keep bool) error {
	how := "ROLLBACK"
	if keep {
		how = "COMMIT"
	}
	if s.table == nil || p.oracle.Autocommit {
		return nil
	}
	return p.say(ctx, how)
}

// say runs a text in both databases.
func (p *play) say(ctx context.Context, text string) error {
	for _, c := range []*Client{p.stock, p.mapped} {
		if _, err := c.Conn.Exec(ctx, text).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

func add(counts *map[string]int, what string) {
	if *counts == nil {
		*counts = map[string]int{}
	}
	(*counts)[what]++
}

// try runs a statement in both databases. It leaves the transaction of a writing statement open.
func (p *play) try(ctx context.Context, s statement) (stock, mapped outcome, v verdict, err error) {
	if s.table != nil && !p.oracle.Autocommit {
		if err = p.say(ctx, "BEGIN"); err != nil {
			return
		}
	}
	if mapped, err = p.mapped.run(ctx, s); err != nil {
		return
	}
	if stock, err = p.stock.run(ctx, s); err != nil {
		return
	}
	return stock, mapped, compare(s, stock, mapped), nil
}

// tables compares all tables after a statement that has succeeded in both databases.
func (p *play) tables(ctx context.Context, s statement) (verdict, error) {
	for _, t := range p.world.Tables {
		if t.Of != nil {
			continue
		}
		a, err := p.stock.contents(ctx, t)
		if err != nil {
			return verdict{}, err
		}
		b, err := p.mapped.contents(ctx, t)
		if err != nil {
			return verdict{}, err
		}
		if diff := differentRows(a, b); diff != "" {
			return verdict{mismatch, "it leaves in " + t.Name + " other " + diff}, nil
		}
	}
	return verdict{same, ""}, nil
}

// explain shrinks a differing statement and returns its description.
func (p *play) explain(ctx context.Context, s statement, made []int, v verdict, mapped outcome) string {
	smaller(made, p.oracle.Shrink, func(list []int) bool {
		t := p.world.statement(&draw{given: list})
		if p.diverged || p.oracle.Autocommit && t.table != nil {
			return false
		}
		_, m, found, err := p.try(ctx, t)
		if err == nil && found.kind == same && t.table != nil {
			found, err = p.tables(ctx, t)
		}
		if p.end(ctx, t, false) != nil || err != nil || found.kind != mismatch {
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

// Excess returns which count of the tally exceeds its bound, "" if none does. The bounds are on refused statements, and
// on statements that only one database evaluates fully.
func (t *Tally) Excess() string {
	if refused := sum(t.Refused); refused*100 > t.Statements {
		return fmt.Sprintf("%d of %d statements are refused", refused, t.Statements)
	}
	if odd := t.Differ[oneEvaluates]; odd > 1+t.Statements/2000 {
		return fmt.Sprintf("%d of %d statements: %s", odd, t.Statements, oneEvaluates)
	}
	return ""
}

func sum(counts map[string]int) int {
	n := 0
	for _, k := range counts {
		n += k
	}
	return n
}

// String returns the report of the tally.
func (t *Tally) String() string {
	text := fmt.Sprintf("%d worlds, %d statements, %d of them rewritten here: %d answered (%d rows, %d writes, all tables compared behind each), %d fail in both, %d with another SQLSTATE, %d refused, %d mismatches",
		t.Worlds, t.Statements, t.Rewritten, t.Answered, t.Rows, t.Writes, sum(t.BothFail), sum(t.Differ), sum(t.Refused), len(t.Mismatches))
	text += fmt.Sprintf("\n  failures: %v", t.BothFail)
	for _, pair := range slices.Sorted(maps.Keys(t.Differ)) {
		text += fmt.Sprintf("\n  %s: %d", pair, t.Differ[pair])
	}
	return text + "\n" + strings.Join(t.Refusals, "\n")
}
