package constraint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file adds UNIQUE constraints: it creates an index, waits for the index's job, and makes the constraint from the
// index.

// unique creates the index of a UNIQUE constraint, and then the constraint. If an earlier statement of this kind has
// left a failed index, unique creates it again. A failed index serves no query and still refuses duplicates.
func (c *Work) unique(a *rewrite.Addition, at *spot) error {
	index := at.index(c.schema)
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
		if at.job, err = c.makeIndex(a.CreateIndex(at.under), index); err != nil {
			return err
		}
	}
	end, err := c.await(at.job)
	if err != nil {
		return err
	}
	valid, err := c.decided(at.name, end, fmt.Sprintf(`SELECT i.indisvalid FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid`+
		` JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE i.indrelid = %s AND n.nspname = %s AND c.relname = %s`, c.oid, literal(c.schema), literal(at.under)),
		func() error { return c.violated(at, end) })
	if err != nil {
		return err
	}
	if !valid {
		return c.dropsFailed(index, c.violated(at, end), end)
	}
	if err = c.usesIndex(a, at); err == nil {
		index = at.index(c.schema)
		c.found, c.made = without(c.found, index), without(c.made, index)
	}
	return err
}

// usesIndex creates a UNIQUE constraint from a valid index. If a chosen name is taken by now, usesIndex chooses again.
// If the server cannot rename the index by this statement, usesIndex renames the index first.
func (c *Work) usesIndex(a *rewrite.Addition, at *spot) error {
	err := c.make(a.UsingIndex(at.name, at.under), at.valid())
	for tries := 0; c.nameTaken(a, err) && at.under != at.name && tries < mostTries; tries++ {
		if err = c.choose(at); err != nil {
			return err
		}
		err = c.make(a.UsingIndex(at.name, at.under), at.valid())
	}
	if told := c.server.Refused(err); told == nil || told.Code != retry.StateUnsupported || at.under == at.name {
		return err
	}
	was, renamed := at.index(c.schema), *at
	renamed.under = at.name
	if failed := c.make(a.RenameIndex(c.schema, at.under, at.name), renamed.index(c.schema)); failed != nil {
		if c.server.Refused(failed) != nil {
			return err
		}
		return failed
	}
	*at, c.found, c.made = renamed, without(c.found, was), without(c.made, was)
	return c.make(a.UsingIndex(at.name, at.under), at.valid())
}

// nameTaken reports whether an error says that a name which Sluice chose is taken by now.
func (c *Work) nameTaken(a *rewrite.Addition, err error) bool {
	told := c.server.Refused(err)
	return told != nil && a.Name == "" && (told.Code == takenRelation || told.Code == takenName)
}

// dropsFailed drops an index of an earlier statement whose build has failed, and returns why. takeBack drops a failed
// index of this statement likewise, because it refuses rows and serves no query.
func (c *Work) dropsFailed(index thing, why error, end jobEnd) error {
	told := c.server.Refused(why)
	if !slices.Contains(c.found, index) || told == nil || !failed(end.status) && !strings.HasPrefix(told.Code, "23") {
		return why
	}
	err := c.server.Ask(index.undo, nil)
	dropped := c.server.Refused(err)
	switch {
	case err == nil, dropped != nil && slices.Contains(notThere, dropped.Code):
		c.found = without(c.found, index)
	case dropped == nil:
		return err
	}
	return why
}

// makeIndex starts the creation of an index, and returns the id of its job. An error for a missing column is worded as
// PostgreSQL does for a constraint.
func (c *Work) makeIndex(sql string, index thing) (job string, err error) {
	c.made = append(c.made, index)
	job, err = c.begin(sql)
	if err != nil && c.server.Undone(err) {
		c.made = c.made[:len(c.made)-1]
	}
	if told := c.server.Refused(err); told != nil && told.Code == undefinedColumn {
		told.Message = strings.Replace(told.Message, `" does not exist`, `" named in key does not exist`, 1)
	}
	return job, err
}
