// Package parse reads SQL. Only package parse calls PostgreSQL's parser (pg_query). Package rewrite, the planner's,
// decides what a text means.
//
// Lexer (lex.go) returns the tokens of a text, and TokenList holds the tokens of one statement. ScanWords (scan.go)
// classifies a text by its words alone. CheckLimits (guard.go) decides whether the parser may get a text. Tree
// (tree.go) returns PostgreSQL's tree, as TreeNodes in protobuf's wire form. An Edit changes a text (edit.go), and
// TreeChanges are the intended changes of its tree (intent.go). SplitScript (script.go) splits a file.
//
// ClockWords, TxTimeWords and UniqueValueFuncs are functions and keywords for values that the server generates
// (clocks.go). InputSettingsOfText returns the settings by which PostgreSQL reads constants (readers.go). QuoteIdent
// and QuoteLiteral quote (names.go); FigureColumnName names columns (figure.go).
//
// Invariants:
//
//   - The parser is C and recursive, without a check of its stack. A client's text passes CheckLimits before Tree.
//   - In doubt CheckLimits refuses, and ScanWords returns MustParse.
//   - The lexer goes forward only, and neither it nor ScanWords allocates.
//   - A TreeNode shares the bytes of its tree, which no code may change.
//   - The time of every function is less than quadratic in the length of a text.
//
// Texts are UTF-8, and standard_conforming_strings is on.
package parse
