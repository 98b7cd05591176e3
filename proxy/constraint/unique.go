package constraint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// This file adds UNIQUE constraints: it creates an index, waits for the index's job, and makes the constraint from the
// index.

// addUnique creates the index of a UNIQUE constraint, and then the constraint. If an earlier statement of this kind has
// left a failed index, addUnique creates it again. A failed index serves no query and still refuses duplicates.
func (c *ConstraintAdder) addUnique(a *alter.AddedConstraint, at *pendingConstraint) error {
	index := at.indexObject(c.schema)
	if at.used {
		return &wire.Error{Code: takenName, Message: fmt.Sprintf("constraint \"%s\" for relation \"%s\" already exists", at.name, c.table)}
	}
	if at.there && at.failed {
		if err := c.server.Ask(index.undo, nil); err != nil {
			return err
		}
		at.there = false
	}
	if at.there {
		c.found = append(c.found, index)
	} else {
		var err error
		if at.job, err = c.startIndex(a.CreateIndexSQL(at.under), index); err != nil {
			return err
		}
	}
	end, err := c.awaitJob(at.job)
	if err != nil {
		return err
	}
	valid, err := c.awaitJobResult(at.name, end, fmt.Sprintf(`SELECT i.indisvalid FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid`+
		` JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE i.indrelid = %s AND n.nspname = %s AND c.relname = %s`, c.oid, quoteLiteral(c.schema), quoteLiteral(at.under)),
		func() error { return c.violationError(at, end) })
	if err != nil {
		return err
	}
	if !valid {
		return c.dropFailedIndex(index, c.violationError(at, end), end)
	}
	if err = c.addUsingIndex(a, at); err == nil {
		index = at.indexObject(c.schema)
		c.found, c.made = removeObject(c.found, index), removeObject(c.made, index)
	}
	return err
}

// addUsingIndex creates a UNIQUE constraint from a valid index. If a name that Sluice chose is taken by now, it
// chooses again. If the server cannot rename the index by this statement, it first renames the index by another one.
func (c *ConstraintAdder) addUsingIndex(a *alter.AddedConstraint, at *pendingConstraint) error {
	err := c.createObject(a.AddUsingIndexSQL(at.name, at.under), at.validObject())
	for tries := 0; c.isNameTaken(a, err) && at.under != at.name && tries < mostTries; tries++ {
		if err = c.chooseNameAgain(at); err != nil {
			return err
		}
		err = c.createObject(a.AddUsingIndexSQL(at.name, at.under), at.validObject())
	}
	if told := c.server.RefusalFrom(err); told == nil || told.Code != retry.StateUnsupported || at.under == at.name {
		return err
	}
	was, renamed := at.indexObject(c.schema), *at
	renamed.under = at.name
	if failed := c.createObject(a.RenameIndexSQL(c.schema, at.under, at.name), renamed.indexObject(c.schema)); failed != nil {
		if c.server.RefusalFrom(failed) != nil {
			return err
		}
		return failed
	}
	*at, c.found, c.made = renamed, removeObject(c.found, was), removeObject(c.made, was)
	return c.createObject(a.AddUsingIndexSQL(at.name, at.under), at.validObject())
}

// isNameTaken reports whether an error says that another object has by now the name that Sluice chose.
func (c *ConstraintAdder) isNameTaken(a *alter.AddedConstraint, err error) bool {
	told := c.server.RefusalFrom(err)
	return told != nil && a.Name == "" && (told.Code == takenRelation || told.Code == takenName)
}

// dropFailedIndex drops an index of an earlier statement whose build has failed, and returns why. A failed index
// refuses rows and serves no query. dropMadeObjects drops a failed index of this statement for the same reason.
func (c *ConstraintAdder) dropFailedIndex(index madeObject, why error, end jobResult) error {
	told := c.server.RefusalFrom(why)
	if !slices.Contains(c.found, index) || told == nil || !isFailedStatus(end.status) && !strings.HasPrefix(told.Code, "23") {
		return why
	}
	err := c.server.Ask(index.undo, nil)
	dropped := c.server.RefusalFrom(err)
	switch {
	case err == nil, dropped != nil && slices.Contains(notThere, dropped.Code):
		c.found = removeObject(c.found, index)
	case dropped == nil:
		return err
	}
	return why
}

// startIndex starts the creation of an index, and returns the id of the index's job. An error for a missing column has
// the words of PostgreSQL's error for a constraint.
func (c *ConstraintAdder) startIndex(sql string, index madeObject) (job string, err error) {
	c.made = append(c.made, index)
	job, err = c.startJob(sql)
	if err != nil && c.server.ChangedNothing(err) {
		c.made = c.made[:len(c.made)-1]
	}
	if told := c.server.RefusalFrom(err); told != nil && told.Code == undefinedColumn {
		told.Message = strings.Replace(told.Message, `" does not exist`, `" named in key does not exist`, 1)
	}
	return job, err
}
