// Package constraint carries out ALTER TABLE that adds constraints (rewrite.Constraints), where
// the server refuses it: in the steps that DSQL has, each a transaction of its own. The
// statement itself goes first, and it stands alone.
//
//	columns        that the statement adds, without their constraints
//	UNIQUE         CREATE UNIQUE INDEX ASYNC, its job, ADD CONSTRAINT ... USING INDEX
//	FOREIGN KEY,   ADD CONSTRAINT ... NOT VALID, ALTER TABLE ASYNC ... VALIDATE CONSTRAINT, its job,
//	CHECK          RENAME CONSTRAINT
//
// Until it holds a constraint has a name that only Sluice gives (naming.go).
//
// Whether a job has done its work the catalog says, since a job that has failed may be called
// completed. Where a step fails, what this statement has made is taken back, the last first, and
// the client is told the error that PostgreSQL would have had (violation.go).
//
// A change of a column's type (retype.go) is carried out here as well, by a column that takes the
// other's place with indexes and constraints like its own: retypefacts.go has what the catalog says
// of it, and retypeindex.go makes the indexes.
//
// A value that is added to an enumeration (enumvalue.go) is a constraint of the domain that stands for it.
//
// CREATE TABLE with serial columns (numbered.go) is carried out by a sequence for each, the table, and OWNED BY.
//
// A lost backend leaves what was made: the error names it. Sent again, a statement that adds one
// constraint finds it under that name (standing.go), and goes on.
package constraint
