// Package rewrite reads SQL. It plans a text: what kind of statements it holds,
// what they do to the session and to the transaction, which tables they name, and
// whether they leave something behind that ties the session to its backend; and
// what goes to the server in its place, where Aurora DSQL spells a statement in
// another way or has none such. It is pure: no input, no output, no goroutine.
//
// # The way of a text
//
// The cache (cache.go) knows it; or its words alone show that it is one harmless
// SELECT, VALUES, INSERT, UPDATE or DELETE (scan.go); or it is too long or too
// deep for the parser (parse.Guard); or PostgreSQL's own parser reads it (parse.Tree)
// and a plan is built from the tree (analysis.go, build.go). The rules go over it
// (rewriter.go), and it is remembered.
//
// # Rules
//
// A rule edits the client's text at token positions (parse.Edit) and says what it
// means to change in the tree (parse.Intents). The text that comes out is parsed again:
// its tree must be the client's with those changes and no others, places in the
// text aside. Otherwise the client's text passes, and Stats.Unverified counts it.
// What a rule did, and what DSQL is known to refuse (features.go, refused.go), are
// findings of the plan. Which policy a locking clause gets depends on the text and
// the configuration alone (policy.go).
//
// What a statement does that a server need not do, each rule says (Does). Linter (lint.go) reads
// statements by the same rules, in the transaction of a tool of migrations (lintblock.go).
//
// # Mapped columns
//
// Where bytea keys are mapped (Rules.Bytea), plans also depend on what names stand for:
// a snapshot of the relations and a search path (package schema). The rule goes
// first (mapping.go); a text that it changes and that cannot be verified is refused.
// Package rewrite/bytea makes the form of each statement.
//
// What a session changes of itself is in control.go, settings.go, role.go and session.go; readonly.go says what
// a transaction that is READ ONLY does not take; setconfig.go has
// the calls of set_config that are a SET, and locktable.go the locks that a snapshot makes needless.
// advisory.go finds the advisory locks of sessions.
//
// Serial and identity columns are in serial.go, the options of sequences in numbering.go, indexes
// in index.go. What is answered of extensions is in extension.go, and the function of theirs
// that is rewritten in uuid.go. TRUNCATE is in truncate.go: one DELETE or several.
//
// ALTER TABLE of what DSQL refuses is edited where that means the same (alter.go), or left to
// the relay, with what it takes to carry it out or to tell how (alteration.go): a column with a
// DEFAULT (addeddefault.go), a change of type (retype.go, and its
// indexes in retypeindex.go), constraints (constraint.go, and
// their steps in constraintsteps.go), several commands (commands.go), and so is the one statement of a
// DO block (guarded.go). A domain stands for an enumeration (enumeration.go, and enumvalue.go for a
// value that is added). What to write where nobody carries it out is in
// alterationhints.go.
//
// What users and clients may have otherwise than the configuration says is in choices.go: a planner
// for each such set of rules, which share one cache.
//
// Package rewrite/values has what a transaction that is run again may be given. It reads texts by Planner.Statements.
//
// transaction.go has what a text asks of its transaction, cursor.go the query of a DECLARE, and copyin.go
// the options of COPY FROM STDIN. What is only needed once the server has refused a text is made then:
// the split form (split.go) and the batches of a DELETE (chunked.go).
//
// # Invariants
//
//   - The parser is C and recursive, without a check of its stack. Nothing
//     reaches it but through the guard, which bounds length and depth.
//   - Whoever errs, errs to the safe side: the scan towards parsing, the guard
//     towards refusing, the plan towards the stronger kind and towards a pin.
//   - The scan and the tree agree: what the scan clears, the tree would have
//     planned with the same kind, and without a pin, a change or another text.
//   - Rewriting is idempotent, and switched-off rules change nothing.
//   - Both guards hold for what a rule made, too.
//   - No rule takes time that goes with the square of a text's length.
//   - Plans are shared, and immutable but for the form that a cluster takes them in
//     (Planner.Refused).
//
// # What is taken on trust
//
// Texts are UTF-8 and read with standard_conforming_strings on; a SET that turns
// it off pins. A plan knows only what is written: not what views, triggers,
// casts, operators and a user's overload of a builtin function do, nor a function
// called as a field of a row (t.f), nor what is in the search path.
package rewrite
