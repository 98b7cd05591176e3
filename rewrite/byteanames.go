package rewrite

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// physicalName is the name under which the server has a mapped column.
func physicalName(name string) string { return schema.Column{Name: name, Mapped: true}.Physical() }

// chooser gives constraints and indexes the names that PostgreSQL gives them where the
// statement does not, from the names of columns that clients know. It knows only the names
// in the statement: where another table has the name, the server refuses the statement.
type chooser struct {
	taken  map[string]bool
	passes map[string]int // by the name of the first pass: those that have been tried
}

func newChooser() chooser { return chooser{map[string]bool{}, map[string]int{}} }

// choose makes a name of table, columns and a label, as PostgreSQL's ChooseRelationName and
// ChooseConstraintName do.
func (c chooser) choose(table string, columns []string, label string) string {
	second := joined(columns)
	first := objectName(table, second, label)
	for {
		tail := label
		if pass := c.passes[first]; pass > 0 {
			tail += strconv.Itoa(pass)
		}
		c.passes[first]++
		if name := objectName(table, second, tail); !c.taken[name] {
			c.taken[name] = true
			return name
		}
	}
}

// distinct are the names of an index's columns with a number behind each that is there twice,
// as PostgreSQL's ChooseIndexColumnNames has them. More than have room in a name are left out.
func distinct(columns []string) []string {
	columns = columns[:min(len(columns), parse.MaxName)]
	taken := make(map[string]bool, len(columns))
	all := make([]string, 0, len(columns))
	for _, column := range columns {
		name := column
		for i := 1; taken[name]; i++ {
			number := strconv.Itoa(i)
			name = clipped(column, min(len(column), parse.MaxName-len(number))) + number
		}
		taken[name] = true
		all = append(all, name)
	}
	return all
}

// joined are names of columns with _ between them, as far as PostgreSQL writes them.
func joined(columns []string) string {
	var b strings.Builder
	for _, column := range columns {
		if b.Len() > 0 {
			b.WriteByte('_')
		}
		b.WriteString(column)
		if b.Len() > parse.MaxName {
			break
		}
	}
	return b.String()
}

// objectName is PostgreSQL's makeObjectName: the longer one of both names is cut until
// the whole fits.
func objectName(first, second, label string) string {
	room := parse.MaxName - len(label) - 1
	if second != "" {
		room--
	}
	a, b := len(first), len(second)
	for a+b > room {
		if a > b {
			a--
		} else {
			b--
		}
	}
	name := clipped(first, a)
	if second != "" {
		name += "_" + clipped(second, b)
	}
	return name + "_" + label
}

// clipped are the first n bytes of a text without a part of a character at their end.
func clipped(s string, n int) string {
	if n == len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
