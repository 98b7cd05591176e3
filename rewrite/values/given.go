package values

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// The functions in this file build the text of a repeated INSERT. Values of its first run replace those that the server
// would generate again. The functions also report which times the server still reads from its clock.

// Cell is a value in the answer to an Insertion, at a row and a column from 0.
type Cell struct{ Row, Column int }

// Given provides the values of an Insertion's first run, which replace values that the server would generate again.
type Given struct {
	// Value returns SQL for a value in the answer of the first run: a constant or a parameter. It is nil if the client did
	// not get the answer.
	Value func(Cell) string
	// Clock means that Value is also used for times in the first answer.
	Clock bool
	// Knows reports whether the transaction's time is known in the form of a column's Time; nil means for none.
	// Time returns SQL for it.
	Knows func(kind string) bool
	Time  func(kind string) string
}

// gives reports which value a column gets: that of the answer (answered), the transaction's time (timed), or
// neither.
func (in *Insertion) gives(column int, g Given) (answered, timed bool) {
	c := in.relation.Columns[column]
	answered = g.Value != nil && in.returned[column] >= 0 && !c.Computed && c.Drawn(g.Clock)
	return answered, !answered && g.Knows != nil && !c.Computed && c.Time != "" && g.Knows(c.Time)
}

// written returns SQL for the value that a column had in a row of the first run.
func (in *Insertion) written(column, row int, g Given) string {
	if answered, _ := in.gives(column, g); answered {
		return g.Value(Cell{row, in.returned[column]})
	}
	return g.Time(in.relation.Columns[column].Time)
}

// givesPeriod is like gives for an item that is an expression for the transaction's time. kind is the Time of a
// column with that expression as its default.
func (in *Insertion) givesPeriod(column int, it given, g Given) (kind string, answered, timed bool) {
	c := in.relation.Columns[column]
	if c.Kind != "" {
		kind = schema.TimeOf(c.Kind, it.period)
	}
	answered = g.Value != nil && g.Clock && in.returned[column] >= 0
	return kind, answered, !answered && kind != "" && g.Knows != nil && g.Knows(kind)
}

// periods returns the edits that replace expressions for the transaction's time by values of the first run.
// write returns the SQL of a value.
func (in *Insertion) periods(g Given, write func(column, row int, kind string, answered bool) string) (edits []parse.Edit) {
	for row, items := range in.items {
		for at, it := range items {
			if it.period == "" || in.relation.Columns[in.listed[at]].Computed {
				continue
			}
			if kind, answered, timed := in.givesPeriod(in.listed[at], it, g); answered || timed {
				edits = append(edits, parse.Edit{Start: int(in.ph.Tokens[it.first].Start), End: int(in.ph.Tokens[it.last].End), Text: write(in.listed[at], row, kind, answered)})
			}
		}
	}
	return edits
}

// With returns the statement with values of its first run, or "" if there are none to use.
func (in *Insertion) With(g Given) string {
	var added []int // columns that the statement does not list
	for i := range in.relation.Columns {
		if answered, timed := in.gives(i, g); (answered || timed) && !slices.Contains(in.listed, i) {
			added = append(added, i)
		}
	}
	always := slices.ContainsFunc(added, func(i int) bool { return in.relation.Columns[i].Always })
	edits, system := in.replaced(g)
	edits = append(edits, in.periods(g, func(column, row int, kind string, answered bool) string {
		if answered {
			return g.Value(Cell{row, in.returned[column]})
		}
		return g.Time(kind)
	})...)
	if len(added) == 0 && len(edits) == 0 {
		return ""
	}
	over := ""
	if (always || system) && !in.system {
		over = " OVERRIDING SYSTEM VALUE"
	}
	if len(in.rows) == 0 { // DEFAULT VALUES
		start, end := in.ph.Tokens[in.head].Start, in.ph.Tokens[in.head+1].End
		text := "(" + in.named(added) + ")" + over + " VALUES (" + in.valued(added, 0, g) + ")"
		return parse.Edited(in.sql, []parse.Edit{{Start: int(start), End: int(end), Text: text}})
	}
	edits = append(edits, in.relist(added, over)...)
	if len(added) > 0 {
		for row, open := range in.rows {
			edits = append(edits, in.inFront(int(in.pairs[open]), ", "+in.valued(added, row, g)))
		}
	}
	return parse.Edited(in.sql, edits)
}

// replaced returns the edits of the items that the server generates: DEFAULT, or calls such as nextval. system reports
// that an item belongs to a GENERATED ALWAYS identity.
func (in *Insertion) replaced(g Given) (edits []parse.Edit, system bool) {
	for at, i := range in.listed {
		c := in.relation.Columns[i]
		answered, timed := in.gives(i, g)
		inAnswer := g.Value != nil && in.returned[i] >= 0 && !c.Computed
		for row, items := range in.items {
			it := items[at]
			byDefault := in.ph.Word(it.first, "default")
			switch {
			case !it.fill, byDefault && !answered && !timed, !byDefault && !inAnswer:
				continue
			}
			system = system || byDefault && c.Always
			text := ""
			if byDefault {
				text = in.written(i, row, g)
			} else {
				text = g.Value(Cell{row, in.returned[i]})
			}
			edits = append(edits, parse.Edit{Start: int(in.ph.Tokens[it.first].Start), End: int(in.ph.Tokens[it.last].End), Text: text})
		}
	}
	return edits, system
}

// relist returns the edits that add columns to the column list, and over after it. A missing list is created.
func (in *Insertion) relist(added []int, over string) (edits []parse.Edit) {
	if in.list < 0 {
		at := in.head
		if in.system { // OVERRIDING SYSTEM VALUE
			at -= 3
		}
		return append(edits, in.inFront(at, "("+in.named(slices.Concat(in.listed, added))+")"+over+" "))
	}
	end := int(in.pairs[in.list])
	if len(added) > 0 {
		edits = append(edits, in.inFront(end, ", "+in.named(added)))
	}
	behind := int(in.ph.Tokens[end].End)
	return append(edits, parse.Edit{Start: behind, End: behind, Text: over})
}

// inFront returns the edit that inserts text before a token.
func (in *Insertion) inFront(token int, text string) parse.Edit {
	start := int(in.ph.Tokens[token].Start)
	return parse.Edit{Start: start, End: start, Text: text}
}

// named returns the list of the columns' names.
func (in *Insertion) named(columns []int) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = parse.Identifier(in.relation.Columns[c].Name)
	}
	return strings.Join(names, ", ")
}

// valued returns the list of the columns' values in a row.
func (in *Insertion) valued(columns []int, row int, g Given) string {
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = in.written(c, row, g)
	}
	return strings.Join(values, ", ")
}

// Survey returns the effects of the statement with values of its first run. A time that g provides is not read
// from the clock. If the client got the first answer, its times are always used. DEFAULT in ON CONFLICT DO
// UPDATE is not replaced, and may be a time.
func (in *Insertion) Survey(g Given) Survey {
	g.Clock = true
	left, ok := parse.Apply(in.sql, in.periods(g, func(int, int, string, bool) string { return "NULL" }))
	if !ok {
		return all
	}
	v := surveyor{names: in.names, withs: withs(in.node, 0, in.withs), root: in.node, Survey: Survey{Time: saysWord(left, parse.Clocks, false)}}
	for child := range in.node.Nodes() { // filled columns are checked below
		v.visit(child, 0)
	}
	if setsDefault(in.node.Child("on_conflict_clause"), 0) {
		v.Time, v.Numbers = true, true
	}
	for i, c := range in.relation.Columns {
		if c.Computed || !in.filled(i) {
			continue
		}
		answered, timed := in.gives(i, g)
		v.Time = v.Time || !answered && !timed && c.Fill >= schema.Clock
		v.Numbers = v.Numbers || c.Fill == schema.Unclear
	}
	return v.Survey
}

func setsDefault(m parse.Message, depth int) bool {
	if depth > maxDepth || m.Is("SetToDefault") {
		return true
	}
	for child := range m.Nodes() {
		if setsDefault(child, depth+1) {
			return true
		}
	}
	return false
}

// GivesTime reports whether the statement gets the transaction's time.
func (in *Insertion) GivesTime(g Given) (gives bool) {
	in.periods(g, func(_, _ int, _ string, answered bool) string { gives = gives || !answered; return "" })
	for i := range in.relation.Columns {
		if _, timed := in.gives(i, g); timed && in.filled(i) {
			return true
		}
	}
	return gives
}

// Times calls tell for each cell of the answer that is the transaction's time, with the Time of its column.
func (in *Insertion) Times(tell func(kind string, c Cell)) {
	for i, c := range in.relation.Columns {
		if in.returned[i] < 0 || c.Computed {
			continue
		}
		at := slices.Index(in.listed, i)
		for row := range in.Rows {
			cell := Cell{row, in.returned[i]}
			switch {
			case at >= 0 && in.items[row][at].period != "":
				kind, _, _ := in.givesPeriod(i, in.items[row][at], Given{})
				tell(kind, cell)
			case c.Fill == schema.Clock && (at < 0 || in.ph.Word(in.items[row][at].first, "default")):
				tell(c.Time, cell)
			}
		}
	}
}

// filled reports whether the server generates a column in some row.
func (in *Insertion) filled(column int) bool {
	at := slices.Index(in.listed, column)
	if at < 0 {
		return true
	}
	return slices.ContainsFunc(in.items, func(row []given) bool { return in.ph.Word(row[at].first, "default") })
}
