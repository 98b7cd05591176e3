// Package constraint performs ALTER TABLE statements that add constraints (alter.AddedConstraints), if the server
// refuses them. The statement itself is sent first, and alone. If the server refuses it, the package uses the steps
// that DSQL has, each in its own transaction:
//
//	columns        of the statement, without their constraints
//	UNIQUE         CREATE UNIQUE INDEX ASYNC, its job, ADD CONSTRAINT ... USING INDEX
//	FOREIGN KEY,   ADD CONSTRAINT ... NOT VALID, ALTER TABLE ASYNC ... VALIDATE CONSTRAINT, its job,
//	CHECK          RENAME CONSTRAINT
//
// Until a constraint is valid, it has a temporary name that only Sluice uses (naming.go).
//
// The catalog shows whether a job has succeeded, because a failed job may be reported as completed. If a step fails,
// the statement's results are removed, the last first. The client gets PostgreSQL's error (violation.go).
//
// This package also changes a column's type (retype.go), by a second column that has indexes and constraints like the
// first. retypefacts.go reads the catalog, and retypeindex.go creates the indexes.
//
// A value that is added to an enumeration (enumvalue.go) becomes a part of a constraint of the domain that replaces the
// enumeration.
//
// CREATE TABLE with serial columns (numbered.go) creates a sequence for each of them and the table, and makes the
// columns own the sequences.
//
// If the backend is lost, the results of earlier steps remain, and the error names them. A statement that adds one
// constraint finds them when it is sent again (standing.go), and continues.
package constraint
