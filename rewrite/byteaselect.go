package rewrite

import (
	"strconv"
	"strings"
)

// output is a column that a query returns.
type output struct {
	name   string
	mapped bool // it is this mapped column and nothing else
	column attribute
}

// selects maps a SELECT, VALUES or a set operation. Of the columns wanted it returns digits:
// then it must be plain.
func (m *mapper) selects(node message, s *scope, wanted []bool) outputs {
	m.with(s, node.child("with_clause"))
	for _, field := range []string{"limit_offset", "limit_count"} {
		if n := node.node(field); n.shape != nil {
			m.expr(&scope{outer: s.outer, ctes: s.ctes}, n)
		}
	}
	if left := node.child("larg"); left.shape != nil {
		made := m.selects(left, &scope{outer: s}, nil)
		m.selects(node.child("rarg"), &scope{outer: s}, nil)
		return made
	}
	if node.has("values_lists") {
		return m.values(s, node)
	}
	m.from(s, node.wrapped("from_clause"))
	m.table = m.tableWord(node)
	out, made := m.targets(s, node, "target_list", wanted)
	for _, field := range []string{"where_clause", "having_clause"} {
		if n := node.node(field); n.shape != nil {
			m.expr(s, n)
		}
	}
	for w := range node.list("window_clause") {
		m.window(s, w)
	}
	for _, n := range node.wrapped("group_clause") {
		m.grouped(s, n, out, made.unknown)
	}
	plainDistinct := false
	for _, n := range node.wrapped("distinct_clause") {
		if n.kind().shape == nil {
			plainDistinct = true
		} else {
			m.outputOrder(s, n, out, made.unknown)
		}
	}
	for sort := range node.list("sort_clause") {
		switch by := sort.node("node"); {
		case plainDistinct:
			if !m.isOutput(by, out) {
				m.expr(s, by)
			}
		case sort.has("use_op"):
			if !m.isOutput(by, out) {
				m.expr(s, by)
			}
		default:
			m.outputOrder(s, by, out, made.unknown)
		}
	}
	return made
}

// tableWord is the word TABLE of a query that is no more than that and a name; -1 for any other.
func (m *mapper) tableWord(node message) int {
	target := node.child("target_list")
	if target.shape == nil || !isStar(target.child("val")) {
		return -1
	}
	i := m.token(target.child("val"))
	from := node.child("from_clause")
	if i >= 0 || !from.is("RangeVar") {
		return -1
	}
	if i = m.token(from) - 1; m.ph.word(i, "only") {
		i--
	}
	if !m.ph.word(i, "table") {
		return -1
	}
	return i
}

// values maps VALUES that stands for itself.
func (m *mapper) values(s *scope, node message) outputs {
	var made outputs
	for row := range node.list("values_lists") {
		for i, n := range row.wrapped("items") {
			m.expr(s, n)
			if i == len(made.names) {
				made.names = append(made.names, "column"+strconv.Itoa(i+1))
			}
		}
	}
	return made
}

// targets maps what a query returns. Of the columns wanted it is digits.
func (m *mapper) targets(s *scope, node message, field string, wanted []bool) ([]output, outputs) {
	var out []output
	var list []value
	made := outputs{digits: map[int]bool{}}
	spelt := false
	all, digits := node.values(field), make([]bool, len(node.values(field)))
	for i, n := range node.wrapped(field) {
		target := n.kind()
		val := target.node("val")
		if isStar(val.kind()) {
			columns, known := m.starred(s, val.kind())
			made.unknown = made.unknown || !known
			if text := m.spelt(s, val.kind(), columns, len(out), wanted); text != "" {
				spelt = true
				list = append(list, m.parsed("SELECT "+text).values("target_list")...)
			} else {
				list = append(list, all[i])
			}
			for _, c := range columns {
				out = append(out, output{name: c.name, mapped: c.mapped, column: c})
			}
			continue
		}
		list = append(list, all[i])
		o := output{name: target.text("name")}
		o.column, o.mapped = m.bare(s, val)
		leaf := message{}
		if o.name == "" {
			o.name, leaf = figure(val)
		}
		digits[i] = m.loose(s, node, val.kind(), len(out), o.name)
		if digits[i] {
			made.digits[len(out)] = true
		}
		if digits[i] = digits[i] || len(out) < len(wanted) && wanted[len(out)]; digits[i] {
			end := m.targetEnd(target)
			m.value(s, val, m.token(target), end)
			if target.text("name") == "" && node.has("sort_clause") {
				m.behind(end, " AS "+written(o.name))
				m.meant.set(target, "name", value{bytes: []byte(o.name)})
			}
		} else {
			m.expr(s, val)
			m.name(s, target, leaf)
		}
		out = append(out, o)
	}
	if spelt {
		m.meant.set(node, field, list...)
	}
	for _, o := range out {
		made.names = append(made.names, o.name)
	}
	if anyOf(digits) {
		m.settledQuery(s, node, digits)
	}
	return out, made
}

// name gives a target the name that it would have, where a mapped column gives it.
func (m *mapper) name(s *scope, target, leaf message) {
	var c attribute
	switch {
	case leaf.is("ColumnRef"):
		c, _ = m.column(s, leaf)
	case leaf.is("A_Indirection"):
		c, _ = m.rowField(s, leaf)
	}
	if c.mapped {
		m.behind(m.targetEnd(target), " AS "+written(c.name))
		m.meant.set(target, "name", value{bytes: []byte(c.name)})
	}
}

// targetEnd is the last token of a target's expression; -1 where that is not plain to see.
func (m *mapper) targetEnd(target message) int {
	start := m.token(target)
	if end := m.end(target.child("val"), start); end >= 0 {
		return end
	}
	end := m.itemEnd(start)
	if end > start && target.text("name") != "" {
		if end--; m.ph.word(end, "as") {
			end--
		}
	}
	return end
}

// afterItems are the words that end the last item of a list without parentheses.
var afterItems = map[string]bool{"from": true, "where": true, "group": true, "having": true, "window": true, "order": true,
	"limit": true, "offset": true, "fetch": true, "for": true, "union": true, "intersect": true, "except": true,
	"into": true, "returning": true}

// itemEnd is the last token of an item, which begins at a token, of a list without parentheses.
func (m *mapper) itemEnd(i int) int { return m.ph.itemEnd(i, m.pair) }

// itemEnd likewise; pair tells which token ends what a parenthesis or bracket opens, -1 for none.
func (p *phrase) itemEnd(i int, pair func(int) int) int {
	if i < 0 {
		return -1
	}
	for first := i; i < len(p.tokens); i++ {
		switch {
		case p.punct(i, '('), p.punct(i, '['):
			if i = pair(i); i < 0 {
				return -1
			}
		case p.punct(i, ','), p.punct(i, ')'), p.punct(i, ']'), p.punct(i, ';'):
			return i - 1
		case i > first && p.tokens[i].kind == wordToken && afterItems[strings.ToLower(string(p.lexeme(i)))] &&
			!p.punct(i-1, '.') && !p.word(i-1, "as") && !p.word(i-1, "distinct") && !p.word(i-1, "within"):
			return i - 1
		}
	}
	return i - 1
}

// starred are the columns that a star stands for; known is false where there may be others.
func (m *mapper) starred(s *scope, ref message) (columns []attribute, known bool) {
	names := ref.names("fields")
	if len(names) == 0 {
		return s.columns, !s.unknown
	}
	schema := ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	it := s.item(schema, names[len(names)-1])
	if it == nil {
		return nil, false
	}
	return it.columns, !it.unknown
}

// spelt writes a star out where a mapped column is behind it, or one wanted as digits; "" where
// it stays. It has as many columns before it.
func (m *mapper) spelt(s *scope, ref message, columns []attribute, before int, wanted []bool) string {
	needed := mapsAny(columns)
	for i := before; i < len(wanted); i++ {
		needed = needed || wanted[i]
	}
	if !needed {
		return ""
	}
	if _, known := m.starred(s, ref); !known {
		m.cannot("A star stands for columns that are not known.")
		return ""
	}
	var all []string
	seen := map[string]bool{}
	for i, c := range columns {
		if name := c.written(); seen[name] || c.of == nil && len(s.named(c.name)) > 1 {
			m.cannot("A star stands for several columns of one name.")
		} else {
			seen[name] = true
		}
		digits := before+i < len(wanted) && wanted[before+i]
		text := c.written()
		switch {
		case c.mapped && !digits:
			text = m.r.conversion().bytea(text) + " AS " + written(c.name)
		case digits && !c.mapped:
			text = m.r.conversion().hex(text)
		}
		all = append(all, text)
	}
	text := strings.Join(all, ", ")
	if at := m.token(ref); at < 0 && m.table >= 0 {
		m.edit(m.table, m.table, "SELECT "+text+" FROM")
	} else {
		m.edit(at, m.lastOf(at), text)
	}
	return text
}

// written is a column as a text may name it anywhere in its query.
func (c attribute) written() string {
	name := written(c.server)
	if c.of != nil && c.of.name != "" {
		return inQuotes(c.of.name) + "." + name // behind a dot a keyword is a name
	}
	if !c.mapped {
		return inQuotes(c.server)
	}
	return name
}

// inQuotes is a name that may be a keyword, as a text may have it.
func inQuotes(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// outputNamed finds the output column that a bare name or a number means; n is -1 for none and
// -2 for several.
func outputNamed(n message, out []output) int {
	node := n.kind()
	if node.is("A_Const") && node.child("ival").shape != nil {
		if i := node.child("ival").integer("ival") - 1; i >= 0 && i < len(out) {
			return i
		}
		return -1
	}
	if !node.is("ColumnRef") {
		return -1
	}
	names := node.names("fields")
	if len(names) != 1 {
		return -1
	}
	found := -1
	for i, o := range out {
		if o.name == names[0] {
			if found >= 0 {
				return -2
			}
			found = i
		}
	}
	return found
}

// isOutput reports whether a sort key is a name or a number of output columns, or a constant.
func (m *mapper) isOutput(n message, out []output) bool {
	return n.kind().is("A_Const") || outputNamed(n, out) != -1
}

// outputOrder maps a sort key of a query: a bare name is an output column first.
func (m *mapper) outputOrder(s *scope, n message, out []output, unknown bool) {
	constant := n.kind().is("A_Const")
	i := outputNamed(n, out)
	switch {
	case constant && unknown, i == -2:
	case i >= 0:
		m.byOutput(n, out[i])
	case constant:
	default:
		m.ordered(s, n)
	}
}

// byOutput has a name or number of an output column that is a mapped one mean the digits.
func (m *mapper) byOutput(n message, o output) {
	if !o.mapped {
		return
	}
	at := m.token(n.kind())
	m.edit(at, at, o.column.written())
	for target := range m.parsed("SELECT " + o.column.written()).list("target_list") {
		m.meant.replace(n, target.node("val"))
	}
}

// grouped maps what rows are grouped by: a bare name is a column of FROM first.
func (m *mapper) grouped(s *scope, n message, out []output, unknown bool) {
	node := n.kind()
	switch {
	case node.is("GroupingSet"):
		for _, within := range node.wrapped("content") {
			m.grouped(s, within, out, unknown)
		}
		return
	case node.is("RowExpr"):
		for _, element := range node.wrapped("args") {
			m.ordered(s, element)
		}
		return
	case node.is("ColumnRef"):
		if names := node.names("fields"); len(names) == 1 && len(s.named(names[0])) > 0 {
			m.ordered(s, n)
			return
		}
	}
	m.outputOrder(s, n, out, unknown)
}
