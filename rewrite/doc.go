// Package rewrite reads SQL texts and plans what Sluice does with them. A plan lists the statements of a text, and for
// each its kind, its tables, and its effects on the session and the transaction. The plan also says whether the session
// must keep its backend afterwards. If Aurora DSQL does not accept the client's text, the plan holds a text for the
// server.
//
// The package does no input or output and starts no goroutine. Package proxy sends the plans to the server, and
// carries out what the server cannot.
//
// # The way of a text
//
// A text takes the first of these ways that succeeds:
//
//   - The cache has the plan of an earlier, equal text (cache.go).
//   - The words of the text show that it is one harmless SELECT, VALUES, INSERT, UPDATE or DELETE
//     (scan.go). Sluice does not parse such a text.
//   - The guard (a check of length and depth before a parse) finds the text too long or too deep.
//     The text's plan then has the kind Unknown (parse.CheckLimits).
//   - PostgreSQL's own parser reads the text (parse.Tree), and a plan is built from the tree
//     (analysis.go, build.go). The rules edit the text (rewriter.go), and the cache stores the plan.
//
// # Rules
//
// rules.go lists the rewriting rules for one statement. A rule edits the client's text at token positions (parse.Edit),
// and declares the changes of the syntax tree that it intends (parse.TreeChanges). The planner parses the edited text.
// The new tree must equal the client's tree with the declared changes and no others; positions are ignored. Otherwise
// the server gets the client's text, and Stats.Unverified counts the failure.
//
// A plan's findings (package finding) list what rules did, and which statements DSQL is known to refuse (refused.go).
// policy.go chooses what becomes of a locking clause (such as FOR SHARE), by the text and the configuration alone.
//
// A rule sets Statement.Does if Sluice may do the work of the statement instead of the server. Linter (lint.go) applies
// the same rules to SQL files, and models the transaction in which a migration tool runs a file (lintblock.go).
//
// # Mapped columns
//
// DSQL accepts no bytea column in a key, so Sluice can store such a column as text (Rules.Bytea). Plans then also
// depend on a snapshot of the relations and on a search path (package schema). This mapping is the first rule
// (mapping.go), and package rewrite/bytea builds the mapped form of each statement. Sluice refuses a mapped text that
// fails verification.
//
// # Files by topic
//
// Session state: control.go, settings.go, role.go, session.go, setconfig.go (calls of set_config that equal a SET) and
// advisory.go (advisory locks of sessions).
//
// Transactions: transaction.go (what a statement requires of its transaction), readonly.go (what a READ ONLY
// transaction refuses) and locktable.go (LOCK TABLE in ACCESS SHARE mode, which a transaction on DSQL does not need).
//
// Schema: serial.go (serial and identity columns), numbering.go (options of sequences), index.go, extension.go, uuid.go
// (uuid_generate_v4) and truncate.go (TRUNCATE as one DELETE or as batches).
//
// ALTER TABLE and enumerations: package rewrite/alter, whose rules get the statement as a Draft. commands.go plans an
// ALTER TABLE of several commands, and guarded.go plans the single statement inside a DO block.
//
// Queries: cursor.go (the query of a DECLARE), copyin.go (the options of COPY FROM STDIN), split.go (two statements for
// FOR UPDATE over several tables) and chunked.go (a DELETE in batches). split.go and chunked.go build their statements
// only after the server has refused the client's text.
//
// Configuration: choices.go holds the rules that users and clients may choose. Each set of choices has a planner, and
// all planners share one cache.
//
// Package rewrite/values finds the values that a replay must repeat. It gets trees from Planner.StatementTrees.
//
// # Invariants
//
//   - The parser is C and recursive, and does not check its stack. Only texts that pass the guard,
//     which bounds length and depth, reach the parser.
//   - In doubt, the scan of words leaves a text to the parser, and the guard refuses a text. In doubt,
//     a plan has the stronger kind, and a pin (the session must keep its backend).
//   - The scan of words and the tree agree. If the scan plans a text, the tree would give the same
//     kind, no pin, no change of a setting, and no other text.
//   - Rewriting is idempotent, and disabled rules change nothing.
//   - The limits of the guard also hold for texts that rules make.
//   - The time of a rule grows at most linearly with the length of the text.
//   - Plans are shared and immutable, except for the form that a cluster takes (Planner.HandleRefusal).
//
// # Assumptions
//
// Texts are UTF-8 and read with standard_conforming_strings on; a SET that turns it off pins the session. A plan covers
// only what the text says. A plan does not cover the effects of views, triggers, casts, operators, overloads of builtin
// functions, functions called as fields (t.f) or the search path.
package rewrite
