package constraint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// This file chooses and changes the names of constraints. A new constraint has a temporary name that only Sluice
// uses, and gets its final name when it is valid. So a statement that is sent again after a lost backend finds its
// own results. It never takes a client's object with the final name for its own result.

// chooseName returns the final name of a constraint: the name in its statement, or the first name that PostgreSQL would
// choose. taken says that the server refuses the name in the statement.
func (c *ConstraintAdder) chooseName(a *alter.AddedConstraint) (name string, taken bool, err error) {
	for pass := 0; ; pass += candidates {
		names := []string{a.Name}
		if a.Name == "" {
			names = names[:0]
			for i := range candidates {
				names = append(names, a.CandidateName(pass+i))
			}
		}
		is, err := c.unavailableNames(a, names)
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

// unavailableNames returns which names are not available: names of the table's constraints and, for UNIQUE, of
// relations. For a name that Sluice chooses, constraints of any table of the schema count too.
func (c *ConstraintAdder) unavailableNames(a *alter.AddedConstraint, names []string) (map[string]bool, error) {
	in, schema := literalList(names), fmt.Sprintf("(SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = %s)", c.oid)
	of := "connamespace = " + schema
	if a.Name != "" {
		of = "conrelid = " + c.oid
	}
	query := fmt.Sprintf("SELECT conname FROM pg_catalog.pg_constraint WHERE %s AND conname IN (%s)", of, in)
	if a.Kind == alter.Unique {
		query += fmt.Sprintf(" UNION ALL SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = %s AND relname IN (%s)", schema, in)
	}
	is := map[string]bool{}
	err := c.server.Ask(query, func(v []string) { is[firstValue(v)] = true })
	return is, err
}

// literalList returns names as SQL constants, separated by commas.
func literalList(names []string) string {
	literals := make([]string, len(names))
	for i, name := range names {
		literals[i] = quoteLiteral(name)
	}
	return strings.Join(literals, ", ")
}

// renameToFinal renames a valid constraint from its temporary to its final name. If the final name that Sluice has
// chosen is taken by now, renameToFinal chooses another one.
func (c *ConstraintAdder) renameToFinal(at *pendingConstraint) error {
	for tries := 0; at.under != at.name; tries++ {
		err := c.createObject(at.add.RenameSQL(at.under, at.name), at.validObject())
		told := c.server.RefusalFrom(err)
		switch {
		case told != nil && told.Code == retry.StateUnsupported:
			c.warnKeepsTemporaryName(at, told)
			return nil
		case told == nil || told.Code != takenName || at.add.Name != "" || tries == mostTries:
			return err
		}
		if err := c.chooseNameAgain(at); err != nil {
			return err
		}
	}
	return nil
}

// chooseNameAgain chooses the final name of a constraint that has its temporary name.
func (c *ConstraintAdder) chooseNameAgain(at *pendingConstraint) error {
	c.promised = slices.DeleteFunc(c.promised, func(name string) bool { return name == at.name })
	name, _, err := c.chooseName(at.add)
	if err == nil {
		at.name, c.promised = name, append(c.promised, name)
	}
	return err
}

// warnKeepsTemporaryName warns the client that the server cannot rename a constraint. The constraint retains its
// temporary name.
func (c *ConstraintAdder) warnKeepsTemporaryName(at *pendingConstraint, told *wire.Error) {
	warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("the constraint \"%s\" is called \"%s\"", at.name, at.under), Detail: told.Message,
		Hint: "To give it its name: " + at.add.RenameSQL(at.under, at.name) + "."}
	c.Notices = append(c.Notices, warning.AppendNotice(nil, "WARNING"))
	at.name = at.under
}

// isGone reports whether an error says that a constraint or index with a temporary name no longer exists. Another
// client with the same statement has renamed or dropped it.
func (c *ConstraintAdder) isGone(err error) bool {
	told := c.server.RefusalFrom(err)
	return told != nil && (told.Code == undefinedObject || told.Code == "55000" && strings.Contains(told.Message, "already associated"))
}

// withFinalName replaces the temporary name of a constraint in an error by the final name.
func (at *pendingConstraint) withFinalName(told *wire.Error) *wire.Error {
	if told == nil || at.under == at.name {
		return told
	}
	with := *told
	for _, text := range []*string{&with.Message, &with.Detail, &with.Constraint} {
		*text = strings.ReplaceAll(*text, at.under, at.name)
	}
	return &with
}
