package bytea

import (
	"strconv"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// physicalName returns the name of a mapped column (bytea stored as text) on the server.
func physicalName(name string) string { return schema.Column{Name: name, Mapped: true}.ServerName() }

// nameChooser chooses the names that PostgreSQL would give to unnamed constraints and indexes, by the column names that
// clients know. It avoids only names in the same statement. If another relation has the name, the server refuses the
// statement.
type nameChooser struct {
	taken  map[string]bool
	passes map[string]int // by the first name of a series (such as t_a_key): the number of names tried
}

func newNameChooser() nameChooser { return nameChooser{map[string]bool{}, map[string]int{}} }

// choose returns a name made of table, columns and label, as PostgreSQL's ChooseRelationName and ChooseConstraintName
// do.
func (c nameChooser) choose(table string, columns []string, label string) string {
	second := parse.JoinColumnNames(columns)
	first := parse.MakeObjectName(table, second, label)
	for {
		tail := label
		if pass := c.passes[first]; pass > 0 {
			tail += strconv.Itoa(pass)
		}
		c.passes[first]++
		if name := parse.MakeObjectName(table, second, tail); !c.taken[name] {
			c.taken[name] = true
			return name
		}
	}
}
