package bytea

import (
	"strconv"

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
	second := parse.JoinedNames(columns)
	first := parse.ObjectName(table, second, label)
	for {
		tail := label
		if pass := c.passes[first]; pass > 0 {
			tail += strconv.Itoa(pass)
		}
		c.passes[first]++
		if name := parse.ObjectName(table, second, tail); !c.taken[name] {
			c.taken[name] = true
			return name
		}
	}
}
