package constraint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// This file finds names for constraints to add, and the objects that exist under these names already.

// pendingConstraint describes a constraint that is being added: its names, and what exists under them.
type pendingConstraint struct {
	add    *alter.AddedConstraint
	name   string // final name
	under  string // temporary name of the constraint or its index
	there  bool   // an earlier statement of this kind has created it or its index, and has not finished
	failed bool   // the index exists, is invalid, and has no running job
	job    string // the running job of the index
	done   bool   // nothing to do
	used   bool   // for UNIQUE: a constraint of the table, without a relation, has the name
}

// candidates is the number of successive names that one query looks up.
const candidates = 16

// locateConstraint returns the names of a new constraint, and the object that an earlier statement has left under
// them. If something else has the name that the client gave, the server will refuse that name.
func (c *ConstraintAdder) locateConstraint(a *alter.AddedConstraint) (pendingConstraint, error) {
	if a.Kind == alter.NotNull {
		at, err := c.readNotNull(a)
		at.add, at.name = a, at.under
		at.done = at.done || at.there && c.isOwnCreation(&at)
		if err != nil || at.done || at.there {
			return at, err
		}
	}
	if a.Kind == alter.NotNull || c.own {
		at, err := c.findLeftover(a, func(pass int) string {
			if a.Name != "" {
				return a.Name
			}
			return a.CandidateName(pass)
		})
		at.name = at.under
		return at, err
	}
	name, taken, err := c.chooseName(a)
	if err != nil || taken && a.Kind != alter.Unique {
		return pendingConstraint{add: a, name: name, under: name}, err
	}
	if taken {
		at, err := c.findLeftover(a, func(int) string { return name })
		at.name, at.there, at.failed = name, false, false
		return at, err
	}
	at, err := c.findLeftover(a, a.TemporaryName)
	at.name = name
	return at, err
}

// findLeftover returns the temporary name of a constraint: the first candidate that is free, or that is the name of
// the constraint or index that an earlier statement has left.
func (c *ConstraintAdder) findLeftover(a *alter.AddedConstraint, candidate func(pass int) string) (pendingConstraint, error) {
	for pass := 0; ; pass += candidates {
		var names []string
		for i := range candidates {
			names = append(names, candidate(pass+i))
		}
		names = slices.Compact(names) // a given name is the only candidate
		taken, err := c.findTakenNames(a, names)
		if err != nil {
			return pendingConstraint{}, err
		}
		for _, name := range names {
			at, is := taken[name]
			at.add, at.under = a, name
			at.there = at.there && !c.isOwnCreation(&at)
			if !is || at.there || len(names) == 1 {
				return at, nil
			}
		}
	}
}

// isOwnCreation reports whether this statement itself has created the object, for another of its constraints.
func (c *ConstraintAdder) isOwnCreation(at *pendingConstraint) bool {
	return slices.Contains(c.made, at.unvalidatedObject())
}

// findTakenNames returns which names are taken, and whether an earlier statement of this kind has left an object
// under each. The constraint under such a name may be valid already and lack only its final name.
func (c *ConstraintAdder) findTakenNames(a *alter.AddedConstraint, names []string) (map[string]pendingConstraint, error) {
	in := literalList(names)
	taken := map[string]pendingConstraint{}
	like := " AND contype = 'c'"
	switch a.Kind {
	case alter.Unique:
		like = ""
	case alter.ForeignKey:
		like = " AND contype = 'f' AND confrelid = " + quoteLiteral(a.Referred) + "::pg_catalog.regclass"
	}
	err := c.server.Ask(fmt.Sprintf(`SELECT conname, conrelid = %s%s, pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint`+
		` WHERE connamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = %s) AND conname IN (%s)`, c.oid, like, c.oid, in),
		func(v []string) {
			if len(v) == 3 {
				was := taken[v[0]]
				was.used = was.used || a.Kind == alter.Unique && v[1] == "t"
				was.there = was.there || a.Kind != alter.Unique && v[1] == "t" && a.MatchesShown(strings.TrimSuffix(v[2], " NOT VALID")+" NOT VALID")
				taken[v[0]] = was
			}
		})
	if err != nil || a.Kind != alter.Unique {
		return taken, err
	}
	return taken, c.addRelationNames(a, in, taken)
}

// addRelationNames adds to taken the names of relations. It marks the indexes that an earlier statement of this kind
// has left: indexes of the same columns without a constraint.
func (c *ConstraintAdder) addRelationNames(a *alter.AddedConstraint, in string, taken map[string]pendingConstraint) error {
	var columns []string
	for _, name := range append(append([]string(nil), a.Keys...), a.Including...) {
		columns = append(columns, quoteLiteral(name))
	}
	err := c.server.Ask(fmt.Sprintf(`SELECT c.relname, COALESCE(i.indrelid = %s AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnullsnotdistinct = %t`+
		` AND i.indnkeyatts = %d AND ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(i.indkey) WITH ORDINALITY k (n, o)`+
		` JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n ORDER BY k.o) = ARRAY[%s]::text[]`+
		` AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_constraint p WHERE p.conindid = i.indexrelid), false), COALESCE(i.indisvalid, false), c.oid`+
		` FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid`+
		` WHERE c.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = %s) AND c.relname IN (%s)`,
		c.oid, a.NullsNotDistinct, len(a.Keys), strings.Join(columns, ", "), c.oid, in),
		func(v []string) {
			if len(v) == 4 {
				taken[v[0]] = pendingConstraint{there: v[1] == "t", failed: v[1] == "t" && v[2] != "t", job: v[3]}
			}
		})
	if err != nil {
		return err
	}
	for name, at := range taken {
		oid := at.job
		at.job = ""
		if at.there && at.failed {
			if at, err = c.findBuildingJob(at, oid); err != nil {
				return err
			}
		}
		taken[name] = at
	}
	return nil
}

// findBuildingJob looks up the running job of an invalid index. If there is none, it reads the index again, because
// the job may have ended meanwhile. If sys.jobs cannot be read, it returns an error and leaves the index as it is.
func (c *ConstraintAdder) findBuildingJob(at pendingConstraint, oid string) (pendingConstraint, error) {
	refused, err := queryJobs(c.server, `SELECT job_id, status FROM sys.jobs WHERE object_id = `+oid, func(v []string) {
		if len(v) == 2 && IsJobRunning(v[1]) {
			at.job, at.failed = v[0], false
		}
	})
	if refused != nil {
		return at, &wire.Error{Code: "55000", Message: "an index that was begun for the constraint is not valid", Detail: unreadableJobsText(refused),
			Hint: "Unless a job is at work at it, drop the index (pg_index.indisvalid), and send the statement again."}
	}
	if err != nil || at.job != "" {
		return at, err
	}
	at.there = false
	err = c.server.Ask(`SELECT indisvalid FROM pg_catalog.pg_index WHERE indexrelid = `+oid, func(v []string) { at.there, at.failed = true, firstValue(v) != "t" })
	return at, err
}

// readNotNull reads whether a column is NOT NULL, or has a CHECK that Sluice added for NOT NULL. at.done means that
// nothing is to do. A client's own CHECK with the same meaning does not count: the client may drop the CHECK and
// leave the column NOT NULL, or the reverse.
func (c *ConstraintAdder) readNotNull(a *alter.AddedConstraint) (at pendingConstraint, err error) {
	there := false
	err = c.server.Ask(fmt.Sprintf(`SELECT a.attnotnull, COALESCE(p.conname, ''), COALESCE(p.convalidated, false), COALESCE(pg_catalog.pg_get_constraintdef(p.oid), '')`+
		` FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_constraint p ON p.conrelid = a.attrelid AND p.contype = 'c' AND p.conkey = ARRAY[a.attnum]`+
		` WHERE a.attrelid = %s AND a.attname = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 3, 2`, c.oid, quoteLiteral(a.Keys[0])),
		func(v []string) {
			if len(v) != 4 {
				return
			}
			there = true
			switch {
			case v[0] == "t":
				at.done = true
			case v[1] != "" && a.MayBeCandidate(v[1]) && a.MatchesShown(strings.TrimSuffix(v[3], " NOT VALID")+" NOT VALID"):
				at.under, at.there, at.done = v[1], true, at.done || v[2] == "t"
			}
		})
	if err == nil && !there {
		err = &wire.Error{Code: undefinedColumn, Message: fmt.Sprintf("column \"%s\" of relation \"%s\" does not exist", a.Keys[0], c.table)}
	}
	return at, err
}

// dropNotNullChecks drops the CHECKs that replaced NOT NULL, after DROP NOT NULL. dropNotNullChecks finds them by their
// expression and by the end of their names, which only Sluice uses. A rename of the column, table or schema changes
// neither. A CHECK with another name may be the client's own, so a warning names it.
func (c *ConstraintAdder) dropNotNullChecks() error {
	there, err := c.readTable(nil)
	if err != nil || !there {
		return err
	}
	for i := range c.DroppedNotNull {
		if err := c.dropNotNullCheck(&c.DroppedNotNull[i]); err != nil {
			return err
		}
		c.found = nil
	}
	return nil
}

// dropNotNullCheck drops, for one column, the CHECKs that replaced NOT NULL.
func (c *ConstraintAdder) dropNotNullCheck(a *alter.AddedConstraint) error {
	var names []string
	err := c.server.Ask(fmt.Sprintf(`SELECT p.conname, pg_catalog.pg_get_constraintdef(p.oid) FROM pg_catalog.pg_constraint p JOIN pg_catalog.pg_attribute a`+
		` ON a.attrelid = p.conrelid AND p.conkey = ARRAY[a.attnum] WHERE p.conrelid = %s AND p.contype = 'c' AND a.attname = %s`, c.oid, quoteLiteral(a.Keys[0])),
		func(v []string) {
			if len(v) == 2 && a.MatchesShown(strings.TrimSuffix(v[1], " NOT VALID")+" NOT VALID") {
				names = append(names, v[0])
			}
		})
	if err != nil {
		return err
	}
	for _, name := range names {
		if !a.MayBeCandidate(name) {
			c.warnOfClientCheck(a, name)
			continue
		}
		c.found = append(c.found, madeObject{what: fmt.Sprintf("constraint \"%s\"", name), undo: a.DropSQL(name)})
		if err := c.server.Ask(a.DropSQL(name), nil); err != nil {
			return err
		}
	}
	return nil
}

// warnOfClientCheck warns about a client's CHECK that still refuses NULL after DROP NOT NULL.
func (c *ConstraintAdder) warnOfClientCheck(a *alter.AddedConstraint, name string) {
	warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("column \"%s\" is still held to NOT NULL by the constraint \"%s\"", a.Keys[0], name),
		Detail: "Its name is none that Sluice gives, so that it may be a constraint of its own.", Hint: "To drop it: " + a.DropSQL(name) + "."}
	c.Notices = append(c.Notices, warning.AppendNotice(nil, "WARNING"))
}

// firstValue returns the first value of a row, or "" if the row has none.
func firstValue(v []string) string {
	if len(v) > 0 {
		return v[0]
	}
	return ""
}
