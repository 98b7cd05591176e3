// Package parse reads SQL text. It alone calls PostgreSQL's parser (pg_query). Package rewrite decides what a text
// means for Sluice.
//
// Lexer (lex.go) returns the tokens of a text, and TokenList holds the tokens of one statement. ScanWords (scan.go)
// classifies a text by its words alone. CheckLimits (guard.go) decides whether the parser may get a text. Tree
// (tree.go) returns PostgreSQL's parse tree, as TreeNodes in protobuf's wire form. An Edit changes a text (edit.go),
// and TreeChanges are the intended changes of its tree (intent.go). SplitScript (script.go) splits a file into
// statements.
//
// ClockWords, TxTimeWords and UniqueValueFuncs name functions and keywords whose values the server generates
// (clocks.go). InputSettingsOfText returns the settings by which PostgreSQL reads constants (readers.go). QuoteIdent
// and QuoteLiteral quote names and constants (names.go). FigureColumnName returns the name of a result column
// (figure.go).
//
// Invariants:
//
//   - The parser is C and recursive, without a check of its stack. A client's text passes CheckLimits before Tree.
//   - In doubt, CheckLimits refuses a text, and ScanWords returns MustParse.
//   - The lexer goes forward only. Neither the lexer nor ScanWords allocates memory.
//   - A TreeNode shares the bytes of its tree. No code may change them.
//   - The time of every function is less than quadratic in the length of a text.
//
// Texts are UTF-8, and standard_conforming_strings is on.
package parse
