// Package rewrite reads SQL texts and plans what Sluice does with them. A plan lists the statements of a text, and for
// each its kind, its tables, and its effects on the session and the transaction. The plan also says whether the session
// must keep its backend afterwards, and which text the server gets where Aurora DSQL does not take the client's.
//
// The package does no input or output and starts no goroutine. Package proxy sends the plans to the server, and
// carries out what the server cannot.
//
// # The way of a text
//
// A text takes the first of these ways that succeeds:
//
//   - The cache returns the plan of an earlier, equal text (cache.go).
//   - The words of the text show that it is one harmless SELECT, VALUES, INSERT, UPDATE or DELETE
//     (scan.go).
//   - The guard finds the text too long or too deep for the parser, and the plan is Unknown
//     (parse.CheckLimits).
//   - PostgreSQL's own parser reads the text (parse.Tree), and a plan is built from the tree
//     (analysis.go, build.go). The rules edit the text (rewriter.go), and the cache stores the plan.
//
// # Rules
//
// rules.go lists the rules of one statement. A rule edits the client's text at token positions (parse.Edit). It also
// declares which changes of the tree it means (parse.TreeChanges). The edited text is parsed again. The new tree must
// equal the client's tree with the declared changes and no others; positions are ignored. Otherwise the server gets the
// client's text, and Stats.Unverified counts the failure.
//
// A plan's findings (package finding) list what rules did, and which statements DSQL is known to refuse (refused.go).
// The policy of a locking clause depends on the text and the configuration alone (policy.go).
//
// Each rule sets Statement.Does where a server need not run the statement. Linter (lint.go) applies the same rules to
// files, and models the transaction of a migration tool (lintblock.go).
//
// # Mapped columns
//
// With Rules.Bytea, plans also depend on a snapshot of the relations and on a search path (package schema). The mapping
// of bytea keys is the first rule (mapping.go). A mapped text that fails verification is refused. Package rewrite/bytea
// builds the mapped form of each statement.
//
// # Files by topic
//
// Session state: control.go, settings.go, role.go, session.go, setconfig.go (calls of set_config that equal a SET) and
// advisory.go (advisory locks of sessions).
//
// Transactions: transaction.go (what a statement requires of its transaction), readonly.go (what a READ ONLY
// transaction refuses) and locktable.go (LOCK TABLE, which a snapshot makes needless).
//
// Schema: serial.go (serial and identity columns), numbering.go (options of sequences), index.go, extension.go, uuid.go
// (uuid_generate_v4) and truncate.go (TRUNCATE as one DELETE or as batches).
//
// ALTER TABLE and enumerations: package rewrite/alter, whose rules get a Draft of the statement. commands.go plans an
// ALTER TABLE of several commands, and guarded.go the single statement of a DO block.
//
// Queries: cursor.go (the query of a DECLARE), copyin.go (the options of COPY FROM STDIN), split.go (two statements for
// FOR UPDATE over several tables) and chunked.go (a DELETE in batches). The last two are built only after the server
// refused the text.
//
// Configuration: choices.go holds the values that users and clients may choose. Each set of choices has a planner, and
// all planners share one cache.
//
// Package rewrite/values finds the values that a replay must repeat. It reads texts by Planner.StatementTrees.
//
// # Invariants
//
//   - The parser is C and recursive, and does not check its stack. Only texts that pass the guard,
//     which bounds length and depth, reach the parser.
//   - Errors go to the safe side. The scan prefers parsing, the guard prefers refusing, and a plan
//     prefers the stronger kind and a pin.
//   - The scan and the tree agree. For a text that the scan plans, the tree would give the same
//     kind, no pin, no change of a setting, and no other text.
//   - Rewriting is idempotent, and disabled rules change nothing.
//   - The limits of the guard also hold for texts that rules make.
//   - The time of a rule grows at most linearly with the length of the text.
//   - Plans are shared and immutable, except for the form that a cluster takes (Planner.HandleRefusal).
//
// # Assumptions
//
// Texts are UTF-8 and read with standard_conforming_strings on; a SET that turns it off pins the session. A plan covers
// only what the text says. It does not see what views, triggers, casts, operators, overloads of builtin functions,
// functions called as fields (t.f) or the search path do.
package rewrite
