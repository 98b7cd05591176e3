// Package dialect knows which SQL Aurora DSQL refuses and in which words, and
// how the rest must be spelled for PostgreSQL.
//
// It is pure: a text goes in, and out come its statements, each with its kind,
// the [Refusal] that DSQL would answer, or the SQL that PostgreSQL shall run in
// its place. The rules are tables over PostgreSQL's own parse tree; every rule
// names its evidence:
//
//	recorded    an answer of a real cluster. A name such as "truncate" is a case
//	            of the public conformance recordings of Dreamescaper/dsql-emulator
//	            (test/conformance/golden, September 2026).
//	measured    seen on a real cluster and published, without a recording.
//	documented  the AWS documentation or an AWS-published program says so.
//	presumed    follows from the pattern of the others; nobody has shown it.
//
// A statement that no table names is refused by the pattern that all recorded
// refusals share: "unsupported statement: " and the name of its parse node
// without "Stmt".
//
// What only the catalog knows (the types of existing columns, what a primary key
// is) is not judged here.
//
// PostgreSQL's parser is C and recursive: a deep text crashes the process. A
// text that is over the guard (see [Dialect.Read]) is not looked at.
package dialect
