package bytea

import (
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// output is a result column of a query.
type output struct {
	name   string
	mapped bool // it is only a reference to this mapped column
	column attribute
}

// selects rewrites a SELECT, VALUES or set operation. The columns wanted return hexadecimal digits, which
// requires a plain SELECT.
func (m *mapper) selects(node parse.Message, s *scope, wanted []bool) outputs {
	m.with(s, node.Child("with_clause"))
	for _, field := range []string{"limit_offset", "limit_count"} {
		if n := node.Node(field); n.Shape != nil {
			m.expr(&scope{outer: s.outer, ctes: s.ctes}, n)
		}
	}
	if left := node.Child("larg"); left.Shape != nil {
		made := m.selects(left, &scope{outer: s}, nil)
		m.selects(node.Child("rarg"), &scope{outer: s}, nil)
		return made
	}
	if node.Has("values_lists") {
		return m.values(s, node)
	}
	m.from(s, node.Wrapped("from_clause"))
	m.table = m.tableWord(node)
	out, made := m.targets(s, node, "target_list", wanted)
	for _, field := range []string{"where_clause", "having_clause"} {
		if n := node.Node(field); n.Shape != nil {
			m.expr(s, n)
		}
	}
	for w := range node.List("window_clause") {
		m.window(s, w)
	}
	for _, n := range node.Wrapped("group_clause") {
		m.grouped(s, n, out, made.unknown)
	}
	plainDistinct := false
	for _, n := range node.Wrapped("distinct_clause") {
		if n.Kind().Shape == nil {
			plainDistinct = true
		} else {
			m.outputOrder(s, n, out, made.unknown)
		}
	}
	for sort := range node.List("sort_clause") {
		switch by := sort.Node("node"); {
		case plainDistinct:
			if !m.isOutput(by, out) {
				m.expr(s, by)
			}
		case sort.Has("use_op"):
			if !m.isOutput(by, out) {
				m.expr(s, by)
			}
		default:
			m.outputOrder(s, by, out, made.unknown)
		}
	}
	return made
}

// tableWord returns the token TABLE of a query TABLE t, or -1.
func (m *mapper) tableWord(node parse.Message) int {
	target := node.Child("target_list")
	if target.Shape == nil || !isStar(target.Child("val")) {
		return -1
	}
	i := m.token(target.Child("val"))
	from := node.Child("from_clause")
	if i >= 0 || !from.Is("RangeVar") {
		return -1
	}
	if i = m.token(from) - 1; m.ph.Word(i, "only") {
		i--
	}
	if !m.ph.Word(i, "table") {
		return -1
	}
	return i
}

// values rewrites a VALUES query.
func (m *mapper) values(s *scope, node parse.Message) outputs {
	var made outputs
	for row := range node.List("values_lists") {
		for i, n := range row.Wrapped("items") {
			m.expr(s, n)
			if i == len(made.names) {
				made.names = append(made.names, "column"+strconv.Itoa(i+1))
			}
		}
	}
	return made
}

// targets rewrites the result columns of a query. The columns wanted return hexadecimal digits.
func (m *mapper) targets(s *scope, node parse.Message, field string, wanted []bool) ([]output, outputs) {
	var out []output
	var list []parse.Value
	made := outputs{digits: map[int]bool{}}
	spelt := false
	all, digits := node.Values(field), make([]bool, len(node.Values(field)))
	for i, n := range node.Wrapped(field) {
		target := n.Kind()
		val := target.Node("val")
		if isStar(val.Kind()) {
			columns, known := m.starred(s, val.Kind())
			made.unknown = made.unknown || !known
			if text := m.expandStar(s, val.Kind(), columns, len(out), wanted); text != "" {
				spelt = true
				list = append(list, m.parsed("SELECT "+text).Values("target_list")...)
			} else {
				list = append(list, all[i])
			}
			for _, c := range columns {
				out = append(out, output{name: c.name, mapped: c.mapped, column: c})
			}
			continue
		}
		list = append(list, all[i])
		o := output{name: target.Text("name")}
		o.column, o.mapped = m.bare(s, val)
		leaf := parse.Message{}
		if o.name == "" {
			o.name, leaf = parse.Figure(val)
		}
		digits[i] = m.freeConstant(s, node, val.Kind(), len(out), o.name)
		if digits[i] {
			made.digits[len(out)] = true
		}
		if digits[i] = digits[i] || len(out) < len(wanted) && wanted[len(out)]; digits[i] {
			end := m.targetEnd(target)
			m.value(s, val, m.token(target), end)
			if target.Text("name") == "" && node.Has("sort_clause") {
				m.behind(end, " AS "+parse.Written(o.name))
				m.meant.Set(target, "name", parse.Value{Bytes: []byte(o.name)})
			}
		} else {
			m.expr(s, val)
			m.name(s, target, leaf)
		}
		out = append(out, o)
	}
	if spelt {
		m.meant.Set(node, field, list...)
	}
	for _, o := range out {
		made.names = append(made.names, o.name)
	}
	if anyOf(digits) {
		m.checkTypesOfQuery(s, node, digits)
	}
	return out, made
}

// name adds an alias to a result column whose name would come from a mapped column.
func (m *mapper) name(s *scope, target, leaf parse.Message) {
	var c attribute
	switch {
	case leaf.Is("ColumnRef"):
		c, _ = m.column(s, leaf)
	case leaf.Is("A_Indirection"):
		c, _ = m.rowField(s, leaf)
	}
	if c.mapped {
		m.behind(m.targetEnd(target), " AS "+parse.Written(c.name))
		m.meant.Set(target, "name", parse.Value{Bytes: []byte(c.name)})
	}
}

// targetEnd returns the last token of a result column's expression, or -1 if it is unclear.
func (m *mapper) targetEnd(target parse.Message) int {
	start := m.token(target)
	if end := m.end(target.Child("val"), start); end >= 0 {
		return end
	}
	end := m.itemEnd(start)
	if end > start && target.Text("name") != "" {
		if end--; m.ph.Word(end, "as") {
			end--
		}
	}
	return end
}

// itemEnd returns the last token of a list item that begins at token i. The list has no parentheses.
func (m *mapper) itemEnd(i int) int { return m.ph.ItemEnd(i, m.pair) }

// starred returns the columns of a star. known is false if there may be others.
func (m *mapper) starred(s *scope, ref parse.Message) (columns []attribute, known bool) {
	names := ref.Names("fields")
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

// expandStar replaces a star by its columns if one of them is mapped or wanted as digits. It returns the new text,
// or "". before is the number of result columns before the star.
func (m *mapper) expandStar(s *scope, ref parse.Message, columns []attribute, before int, wanted []bool) string {
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
			text = m.r.By.Bytea(text) + " AS " + parse.Written(c.name)
		case digits && !c.mapped:
			text = m.r.By.Hex(text)
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

// written returns SQL that refers to the column anywhere in its query.
func (c attribute) written() string {
	name := parse.Written(c.server)
	if c.of != nil && c.of.name != "" {
		return parse.Identifier(c.of.name) + "." + name // after a dot, a keyword is a name
	}
	if !c.mapped {
		return parse.Identifier(c.server)
	}
	return name
}

// outputNamed returns the index of the result column that an unqualified name or a number means: -1 for none,
// -2 for several.
func outputNamed(n parse.Message, out []output) int {
	node := n.Kind()
	if node.Is("A_Const") && node.Child("ival").Shape != nil {
		if i := node.Child("ival").Integer("ival") - 1; i >= 0 && i < len(out) {
			return i
		}
		return -1
	}
	if !node.Is("ColumnRef") {
		return -1
	}
	names := node.Names("fields")
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

// isOutput reports whether a sort key is a name or number of result columns, or a constant.
func (m *mapper) isOutput(n parse.Message, out []output) bool {
	return n.Kind().Is("A_Const") || outputNamed(n, out) != -1
}

// outputOrder rewrites a sort key of a query. An unqualified name means a result column first.
func (m *mapper) outputOrder(s *scope, n parse.Message, out []output, unknown bool) {
	constant := n.Kind().Is("A_Const")
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

// byOutput replaces a name or number of a result column that is a mapped column by the column itself.
func (m *mapper) byOutput(n parse.Message, o output) {
	if !o.mapped {
		return
	}
	at := m.token(n.Kind())
	m.edit(at, at, o.column.written())
	for target := range m.parsed("SELECT " + o.column.written()).List("target_list") {
		m.meant.Replace(n, target.Node("val"))
	}
}

// grouped rewrites a GROUP BY key. An unqualified name means a column of FROM first.
func (m *mapper) grouped(s *scope, n parse.Message, out []output, unknown bool) {
	node := n.Kind()
	switch {
	case node.Is("GroupingSet"):
		for _, within := range node.Wrapped("content") {
			m.grouped(s, within, out, unknown)
		}
		return
	case node.Is("RowExpr"):
		for _, element := range node.Wrapped("args") {
			m.ordered(s, element)
		}
		return
	case node.Is("ColumnRef"):
		if names := node.Names("fields"); len(names) == 1 && len(s.named(names[0])) > 0 {
			m.ordered(s, n)
			return
		}
	}
	m.outputOrder(s, n, out, unknown)
}
