package constraint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A constraint that is being added has a name that only Sluice gives, and gets its own when it holds. So a statement
// that is sent again behind a lost backend finds what it has made, and takes nothing that the client has made itself
// under the constraint's name.

// chosen returns the name of a constraint: the one that its statement gives, or the first that PostgreSQL would choose.
// taken: the server refuses the name that the statement gives.
func (c *Work) chosen(a *rewrite.Addition) (name string, taken bool, err error) {
	for pass := 0; ; pass += candidates {
		names := []string{a.Name}
		if a.Name == "" {
			names = names[:0]
			for i := range candidates {
				names = append(names, a.Candidate(pass+i))
			}
		}
		is, err := c.named(a, names)
		if err != nil {
			return "", false, err
		}
		for _, name := range names {
			switch {
			case a.Name != "" && slices.Contains(c.promised, name):
				return "", false, &wire.Error{Code: takenName, Message: fmt.Sprintf("constraint \"%s\" for relation \"%s\" already exists", name, c.table)}
			case a.Name != "" || !is[name] && !slices.Contains(c.promised, name):
				return name, is[name], nil
			}
		}
	}
}

// named returns which of the names something has that keeps the constraint from having it: a constraint of the table,
// and for UNIQUE a relation; of a name that is chosen, a constraint of any table of the schema too.
func (c *Work) named(a *rewrite.Addition, names []string) (map[string]bool, error) {
	in, schema := list(names), fmt.Sprintf("(SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = %s)", c.oid)
	of := "connamespace = " + schema
	if a.Name != "" {
		of = "conrelid = " + c.oid
	}
	query := fmt.Sprintf("SELECT conname FROM pg_catalog.pg_constraint WHERE %s AND conname IN (%s)", of, in)
	if a.Kind == rewrite.Unique {
		query += fmt.Sprintf(" UNION ALL SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = %s AND relname IN (%s)", schema, in)
	}
	is := map[string]bool{}
	err := c.server.Ask(query, func(v []string) { is[firstOf(v)] = true })
	return is, err
}

// list is names as SQL constants.
func list(names []string) string {
	literals := make([]string, len(names))
	for i, name := range names {
		literals[i] = literal(name)
	}
	return strings.Join(literals, ", ")
}

// arrive gives a constraint that holds its own name. One that was chosen, and is taken by now, is chosen again.
func (c *Work) arrive(at *spot) error {
	for tries := 0; at.under != at.name; tries++ {
		err := c.make(at.add.Rename(at.under, at.name), at.valid())
		told := c.server.Refused(err)
		switch {
		case told != nil && told.Code == retry.StateUnsupported:
			c.keepsHidden(at, told)
			return nil
		case told == nil || told.Code != takenName || at.add.Name != "" || tries == mostTries:
			return err
		}
		if err := c.choose(at); err != nil {
			return err
		}
	}
	return nil
}

// choose chooses the name of a constraint that has another one for the time being.
func (c *Work) choose(at *spot) error {
	c.promised = slices.DeleteFunc(c.promised, func(name string) bool { return name == at.name })
	name, _, err := c.chosen(at.add)
	if err == nil {
		at.name, c.promised = name, append(c.promised, name)
	}
	return err
}

// keepsHidden tells that the server renames no constraint, so that this one has the name that was for the time being.
func (c *Work) keepsHidden(at *spot, told *wire.Error) {
	warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("the constraint \"%s\" is called \"%s\"", at.name, at.under), Detail: told.Message,
		Hint: "To give it its name: " + at.add.Rename(at.under, at.name) + "."}
	c.Notices = append(c.Notices, warning.AppendNotice(nil, "WARNING"))
	at.name = at.under
}

// gone reports the error of a constraint or index that is not there any more under its name for the time being. Another
// client that adds the same has shared it, and has given it a name, or has taken it back.
func (c *Work) gone(err error) bool {
	told := c.server.Refused(err)
	return told != nil && (told.Code == undefinedObject || told.Code == "55000" && strings.Contains(told.Message, "already associated"))
}

// inItsName has an error speak of the constraint by its own name.
func (at *spot) inItsName(told *wire.Error) *wire.Error {
	if told == nil || at.under == at.name {
		return told
	}
	with := *told
	for _, text := range []*string{&with.Message, &with.Detail, &with.Constraint} {
		*text = strings.ReplaceAll(*text, at.under, at.name)
	}
	return &with
}
