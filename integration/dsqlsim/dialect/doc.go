// Package dialect knows which SQL Aurora DSQL refuses, with which errors, and how other statements must be spelled for
// PostgreSQL.
//
// Package dialect has no side effects. For a text it returns the statements, each with its kind, and the [Refusal] that
// DSQL would answer or the SQL for PostgreSQL. The rules are tables over PostgreSQL's parse tree. Every rule names its
// evidence:
//
//	recorded    an answer of a real cluster. A name such as "truncate" is a case
//	            of the public conformance recordings of Dreamescaper/dsql-emulator
//	            (test/conformance/golden, September 2026).
//	measured    seen on a real cluster and published, without a recording.
//	documented  the AWS documentation or an AWS-published program says so.
//	presumed    follows from the pattern of the others; no source confirms it.
//
// A statement that no table names is refused by the pattern of all recorded refusals. The message is "unsupported
// statement: " and the name of the statement's parse node without "Stmt".
//
// Rules that need the catalog are not in package dialect, for example rules about the types of existing columns or
// about primary keys.
//
// PostgreSQL's parser is written in C and recursive, so a deeply nested text crashes the process. A text over the guard
// (see [Dialect.Analyze]) is therefore not parsed.
package dialect
