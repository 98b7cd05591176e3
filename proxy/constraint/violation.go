package constraint

import (
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// This file makes the errors of constraints that rows violate. A job reports its failure in other words than
// PostgreSQL, or not at all. So Sluice queries the rows, and the client gets PostgreSQL's error. If no violating row
// is left, the client gets the job's error.

// violationError returns the error for a constraint that could not be validated, or whose index could not be created.
func (c *ConstraintAdder) violationError(at *pendingConstraint, end jobResult) error {
	a, name := at.add, at.name
	var found *wire.Error
	var err error
	switch a.Kind {
	case alter.Unique:
		found, err = c.findDuplicate(a, name)
	case alter.ForeignKey:
		found, err = c.findOrphan(at)
	default:
		found, err = c.findCheckViolation(at)
	}
	switch told := c.server.RefusalFrom(err); {
	case err != nil && told == nil:
		return err
	case told != nil && strings.HasPrefix(told.Code, "22"): // the expression fails for a row
		return told
	case found != nil:
		found.Schema, found.Table = c.schema, c.table
		return found
	}
	return &wire.Error{Code: failedJobCode(a, end.details), Message: fmt.Sprintf("the constraint \"%s\" could not be added: its job is %s", name, describeStatus(end)), Detail: end.details,
		Hint: "See sys.jobs, and send the statement again.", Schema: c.schema, Table: c.table, Constraint: name}
}

// failedJobCode returns the SQLSTATE for a failed job of a constraint. details is the job's text in sys.jobs.
func failedJobCode(a *alter.AddedConstraint, details string) string {
	details = strings.ToLower(details)
	says := func(word string) bool { return strings.Contains(details, word) }
	switch {
	case a.Kind == alter.Unique && (says("unique") || says("duplicate")):
		return "23505"
	case a.Kind == alter.ForeignKey && says("violat"):
		return "23503"
	case (a.Kind == alter.Check || a.Kind == alter.NotNull) && says("violat"):
		return "23514"
	}
	return "58000"
}

// findDuplicate returns the error for rows with equal values in a UNIQUE constraint's columns, or nil for none.
func (c *ConstraintAdder) findDuplicate(a *alter.AddedConstraint, name string) (found *wire.Error, err error) {
	n := len(a.Keys)
	err = c.server.Ask(a.DuplicateQuery(), func(v []string) {
		if len(v) != 3*n {
			return
		}
		found = duplicateKeyError(name, v[2*n:], v[:n], v[n:2*n])
	})
	return found, err
}

// duplicateKeyError returns the error for an index that cannot be unique. keys are the names of the index's keys, and
// values are values that several rows have in these keys. null says which values are NULL.
func duplicateKeyError(name string, keys, values, null []string) *wire.Error {
	for i := range values {
		if null[i] == "t" {
			values[i] = "null"
		}
	}
	return &wire.Error{Code: "23505", Message: fmt.Sprintf("could not create unique index \"%s\"", name), Constraint: name,
		Detail: fmt.Sprintf("Key (%s)=(%s) is duplicated.", strings.Join(keys, ", "), strings.Join(values, ", "))}
}

// findOrphan returns the error for a row that violates a FOREIGN KEY because the row it refers to is missing, or nil.
func (c *ConstraintAdder) findOrphan(at *pendingConstraint) (found *wire.Error, err error) {
	a, name := at.add, at.name
	var referred []string
	other := ""
	err = c.server.Ask(fmt.Sprintf(`SELECT a.attname, r.relname FROM pg_catalog.pg_constraint p JOIN pg_catalog.pg_class r ON r.oid = p.confrelid JOIN pg_catalog.pg_attribute a`+
		` ON a.attrelid = p.confrelid AND a.attnum = ANY (p.confkey) WHERE p.conrelid = %s AND p.conname = %s ORDER BY pg_catalog.array_position(p.confkey, a.attnum)`, c.oid, quoteLiteral(at.under)),
		func(v []string) {
			if len(v) == 2 {
				referred, other = append(referred, v[0]), v[1]
			}
		})
	if err != nil || len(referred) != len(a.Keys) {
		return nil, err
	}
	message := fmt.Sprintf("insert or update on table \"%s\" violates foreign key constraint \"%s\"", c.table, name)
	err = c.server.Ask(a.OrphanQuery(referred), func(v []string) {
		found = &wire.Error{Code: "23503", Message: message, Constraint: name,
			Detail: fmt.Sprintf("Key (%s)=(%s) is not present in table \"%s\".", strings.Join(a.Keys, ", "), strings.Join(v, ", "), other)}
	})
	if err != nil || found != nil || !a.MatchFull {
		return found, err
	}
	err = c.server.Ask(a.PartialNullQuery(), func([]string) {
		found = &wire.Error{Code: "23503", Message: message, Constraint: name, Detail: "MATCH FULL does not allow mixing of null and nonnull key values."}
	})
	return found, err
}

// findCheckViolation returns the error for a row that a CHECK refuses, or nil.
func (c *ConstraintAdder) findCheckViolation(at *pendingConstraint) (found *wire.Error, err error) {
	a, name := at.add, at.name
	expression := ""
	err = c.server.Ask(fmt.Sprintf(`SELECT pg_catalog.pg_get_expr(conbin, conrelid) FROM pg_catalog.pg_constraint WHERE conrelid = %s AND conname = %s`, c.oid, quoteLiteral(at.under)),
		func(v []string) { expression = firstValue(v) })
	if err != nil || expression == "" {
		return nil, err
	}
	err = c.server.Ask(a.ViolationQuery(expression), func([]string) {
		found = &wire.Error{Code: "23514", Message: fmt.Sprintf("check constraint \"%s\" of relation \"%s\" is violated by some row", name, c.table), Constraint: name}
		if a.Kind == alter.NotNull {
			found = &wire.Error{Code: "23502", Message: fmt.Sprintf("column \"%s\" of relation \"%s\" contains null values", a.Keys[0], c.table), Column: a.Keys[0]}
		}
	})
	return found, err
}
