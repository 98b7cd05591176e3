// Package constraint performs ALTER TABLE that adds constraints (rewrite.Constraints), if the
// server refuses it. It uses the steps that DSQL has, each in its own transaction. The statement
// itself is sent first, and alone.
//
//	columns        of the statement, without their constraints
//	UNIQUE         CREATE UNIQUE INDEX ASYNC, its job, ADD CONSTRAINT ... USING INDEX
//	FOREIGN KEY,   ADD CONSTRAINT ... NOT VALID, ALTER TABLE ASYNC ... VALIDATE CONSTRAINT, its job,
//	CHECK          RENAME CONSTRAINT
//
// Until it is valid, a constraint has a name that only Sluice uses (naming.go).
//
// The catalog shows whether a job has succeeded, because a failed job may be reported as completed.
// If a step fails, the statement's results are removed, the last first. The client gets
// PostgreSQL's error (violation.go).
//
// This package also changes a column's type (retype.go), by a second column with indexes and
// constraints like the first: retypefacts.go reads the catalog, and retypeindex.go creates the
// indexes.
//
// A value that is added to an enumeration (enumvalue.go) is a constraint of the domain that
// replaces it.
//
// CREATE TABLE with serial columns (numbered.go) becomes a sequence for each, the table, and OWNED
// BY.
//
// A lost backend leaves its results, which the error names. A statement that adds one constraint
// finds them when it is sent again (standing.go), and continues.
package constraint
