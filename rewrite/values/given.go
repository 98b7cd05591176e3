package values

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// The functions in this file build the text of a repeated INSERT. In it, values of the first run replace values that
// the server would generate again. The functions also report which times the server still takes from its clock.

// AnswerCell is the place of a value in the answer to an Insertion. Row and Column count from 0.
type AnswerCell struct{ Row, Column int }

// FirstRunValues provides the values of an Insertion's first run. They replace values that the server would generate
// again.
type FirstRunValues struct {
	// Value returns the SQL, a constant or a parameter, of a value in the server's answer to the first run. Value is
	// nil if the client did not get that answer.
	Value func(AnswerCell) string
	// Clock means that the caller may also use Value for times in the first answer.
	Clock bool
	// Knows reports whether Sluice knows the first transaction's time in the form that kind, a Column.Time, describes.
	// A nil Knows knows no time. Time returns the SQL of the time.
	Knows func(kind string) bool
	Time  func(kind string) string
}

// valueSource says from where a column gets its value in the repeated INSERT. answered means from the first answer,
// timed from the first transaction's time. If both are false, the server generates the value again.
func (in *Insertion) valueSource(column int, g FirstRunValues) (answered, timed bool) {
	c := in.relation.Columns[column]
	answered = g.Value != nil && in.returned[column] >= 0 && !c.Computed && c.CanRepeatValue(g.Clock)
	return answered, !answered && g.Knows != nil && !c.Computed && c.Time != "" && g.Knows(c.Time)
}

// valueSQL returns the SQL of the value that a column had in a row of the first run.
func (in *Insertion) valueSQL(column, row int, g FirstRunValues) string {
	if answered, _ := in.valueSource(column, g); answered {
		return g.Value(AnswerCell{row, in.returned[column]})
	}
	return g.Time(in.relation.Columns[column].Time)
}

// timeValueSource does the work of valueSource for an item that is the transaction's time, such as now(). kind is the
// Column.Time that the column would have if the item were its default.
func (in *Insertion) timeValueSource(column int, it rowItem, g FirstRunValues) (kind string, answered, timed bool) {
	c := in.relation.Columns[column]
	if c.Kind != "" {
		kind = schema.TimeOfDefault(c.Kind, it.period)
	}
	answered = g.Value != nil && g.Clock && in.returned[column] >= 0
	return kind, answered, !answered && kind != "" && g.Knows != nil && g.Knows(kind)
}

// timeEdits returns the edits that replace items such as now() by values of the first run. write returns the SQL of a
// value.
func (in *Insertion) timeEdits(g FirstRunValues, write func(column, row int, kind string, answered bool) string) (edits []parse.Edit) {
	for row, items := range in.items {
		for at, it := range items {
			if it.period == "" || in.relation.Columns[in.listed[at]].Computed {
				continue
			}
			if kind, answered, timed := in.timeValueSource(in.listed[at], it, g); answered || timed {
				edits = append(edits, parse.Edit{Start: int(in.ph.Tokens[it.first].Start), End: int(in.ph.Tokens[it.last].End), Text: write(in.listed[at], row, kind, answered)})
			}
		}
	}
	return edits
}

// WithFirstRun returns the INSERT with values of its first run. It returns "" if no value of the first run is usable.
func (in *Insertion) WithFirstRun(g FirstRunValues) string {
	var added []int // columns that the statement does not list
	for i := range in.relation.Columns {
		if answered, timed := in.valueSource(i, g); (answered || timed) && !slices.Contains(in.listed, i) {
			added = append(added, i)
		}
	}
	always := slices.ContainsFunc(added, func(i int) bool { return in.relation.Columns[i].Always })
	edits, system := in.generatedItemEdits(g)
	edits = append(edits, in.timeEdits(g, func(column, row int, kind string, answered bool) string {
		if answered {
			return g.Value(AnswerCell{row, in.returned[column]})
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
	if len(in.rows) == 0 { // the INSERT has DEFAULT VALUES
		start, end := in.ph.Tokens[in.head].Start, in.ph.Tokens[in.head+1].End
		text := "(" + in.columnNamesSQL(added) + ")" + over + " VALUES (" + in.valuesSQL(added, 0, g) + ")"
		return parse.EditedText(in.sql, []parse.Edit{{Start: int(start), End: int(end), Text: text}})
	}
	edits = append(edits, in.columnListEdits(added, over)...)
	if len(added) > 0 {
		for row, open := range in.rows {
			edits = append(edits, in.insertBefore(int(in.pairs[open]), ", "+in.valuesSQL(added, row, g)))
		}
	}
	return parse.EditedText(in.sql, edits)
}

// generatedItemEdits returns the edits of the items that the server generates, by DEFAULT or calls such as nextval.
// system reports that one of these items is for a column GENERATED ALWAYS AS IDENTITY.
func (in *Insertion) generatedItemEdits(g FirstRunValues) (edits []parse.Edit, system bool) {
	for at, i := range in.listed {
		c := in.relation.Columns[i]
		answered, timed := in.valueSource(i, g)
		inAnswer := g.Value != nil && in.returned[i] >= 0 && !c.Computed
		for row, items := range in.items {
			it := items[at]
			byDefault := in.ph.IsKeyword(it.first, "default")
			switch {
			case !it.fill, byDefault && !answered && !timed, !byDefault && !inAnswer:
				continue
			}
			system = system || byDefault && c.Always
			text := ""
			if byDefault {
				text = in.valueSQL(i, row, g)
			} else {
				text = g.Value(AnswerCell{row, in.returned[i]})
			}
			edits = append(edits, parse.Edit{Start: int(in.ph.Tokens[it.first].Start), End: int(in.ph.Tokens[it.last].End), Text: text})
		}
	}
	return edits, system
}

// columnListEdits returns the edits that add columns to the INSERT's column list, and that insert the text over after
// the list. If the INSERT has no list, the edits create a list.
func (in *Insertion) columnListEdits(added []int, over string) (edits []parse.Edit) {
	if in.list < 0 {
		at := in.head
		if in.system { // the words OVERRIDING SYSTEM VALUE precede token at
			at -= 3
		}
		return append(edits, in.insertBefore(at, "("+in.columnNamesSQL(slices.Concat(in.listed, added))+")"+over+" "))
	}
	end := int(in.pairs[in.list])
	if len(added) > 0 {
		edits = append(edits, in.insertBefore(end, ", "+in.columnNamesSQL(added)))
	}
	behind := int(in.ph.Tokens[end].End)
	return append(edits, parse.Edit{Start: behind, End: behind, Text: over})
}

// insertBefore returns the edit that inserts text before a token.
func (in *Insertion) insertBefore(token int, text string) parse.Edit {
	start := int(in.ph.Tokens[token].Start)
	return parse.Edit{Start: start, End: start, Text: text}
}

// columnNamesSQL returns an SQL list of the columns' names.
func (in *Insertion) columnNamesSQL(columns []int) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = parse.QuoteIdent(in.relation.Columns[c].Name)
	}
	return strings.Join(names, ", ")
}

// valuesSQL returns an SQL list of the values that the columns had in a row of the first run.
func (in *Insertion) valuesSQL(columns []int, row int, g FirstRunValues) string {
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = in.valueSQL(c, row, g)
	}
	return strings.Join(values, ", ")
}

// EffectsWith returns the effects of the INSERT with values of its first run. The server does not read the clock for a
// time that g provides. If the client got the first answer, the INSERT takes the times in it. Sluice does not replace
// DEFAULT in ON CONFLICT DO UPDATE, which may be a time.
func (in *Insertion) EffectsWith(g FirstRunValues) Effects {
	g.Clock = true
	left, ok := parse.Apply(in.sql, in.timeEdits(g, func(int, int, string, bool) string { return "NULL" }))
	if !ok {
		return allEffects
	}
	v := effectScanner{names: in.names, withs: appendCTENames(in.node, 0, in.withs), root: in.node, Effects: Effects{Time: containsWord(left, parse.ClockWords, false)}}
	for child := range in.node.Children() { // the loop after this one checks the columns that the server fills
		v.visit(child, 0)
	}
	if containsDefault(in.node.Child("on_conflict_clause"), 0) {
		v.Time, v.Numbers = true, true
	}
	for i, c := range in.relation.Columns {
		if c.Computed || !in.isServerGenerated(i) {
			continue
		}
		answered, timed := in.valueSource(i, g)
		v.Time = v.Time || !answered && !timed && c.Fill >= schema.Clock
		v.Numbers = v.Numbers || c.Fill == schema.Unclear
	}
	return v.Effects
}

func containsDefault(m parse.TreeNode, depth int) bool {
	if depth > maxDepth || m.Is("SetToDefault") {
		return true
	}
	for child := range m.Children() {
		if containsDefault(child, depth+1) {
			return true
		}
	}
	return false
}

// TakesTxTime reports whether the repeated INSERT gets the time of the first transaction.
func (in *Insertion) TakesTxTime(g FirstRunValues) (gives bool) {
	in.timeEdits(g, func(_, _ int, _ string, answered bool) string { gives = gives || !answered; return "" })
	for i := range in.relation.Columns {
		if _, timed := in.valueSource(i, g); timed && in.isServerGenerated(i) {
			return true
		}
	}
	return gives
}

// EachTxTime calls tell for each cell of the answer that is the transaction's time. kind is the Column.Time of the
// cell.
func (in *Insertion) EachTxTime(tell func(kind string, c AnswerCell)) {
	for i, c := range in.relation.Columns {
		if in.returned[i] < 0 || c.Computed {
			continue
		}
		at := slices.Index(in.listed, i)
		for row := range in.Rows {
			cell := AnswerCell{row, in.returned[i]}
			switch {
			case at >= 0 && in.items[row][at].period != "":
				kind, _, _ := in.timeValueSource(i, in.items[row][at], FirstRunValues{})
				tell(kind, cell)
			case c.Fill == schema.Clock && (at < 0 || in.ph.IsKeyword(in.items[row][at].first, "default")):
				tell(c.Time, cell)
			}
		}
	}
}

// isServerGenerated reports whether the server generates the value of a column in at least one row.
func (in *Insertion) isServerGenerated(column int) bool {
	at := slices.Index(in.listed, column)
	if at < 0 {
		return true
	}
	return slices.ContainsFunc(in.items, func(row []rowItem) bool { return in.ph.IsKeyword(row[at].first, "default") })
}
