// Package parse reads SQL. Only this package calls PostgreSQL's parser (pg_query). The package of the planner,
// rewrite, owns what a text means.
//
// Lexer (lex.go) returns the tokens of a text, and Phrase those of one statement. ScanWords (scan.go) says what
// the words of a text alone show. Guard (guard.go) decides whether the parser may have a text. Tree (tree.go)
// returns PostgreSQL's tree, as Messages in protobuf's wire form. An Edit changes a text (edit.go), and Intents
// are the changes that it means to make to the tree (intent.go). Script (script.go) splits a file.
//
// Clocks, Periods and Drawers are words for values that the server makes anew (clocks.go). ReadBy returns the settings
// by which constants are read (readers.go). Identifier and Literal quote (names.go); Figure names columns (figure.go).
//
// Invariants:
//   - The parser is C and recursive, without a check of its stack. A text of a client passes Guard before Tree.
//   - Guard errs towards refusing, and ScanWords towards Unshown.
//   - The lexer goes forward only, and neither it nor ScanWords allocates.
//   - A Message shares the bytes of its tree: nobody writes them.
//   - No function takes time that goes with the square of a text's length.
//
// Texts are UTF-8, and standard_conforming_strings is on.
package parse
