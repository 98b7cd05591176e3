// Package schema holds the relations of a server, and resolves names in SQL texts to relations. A Schema is a snapshot
// of relations and their columns. A NameResolver resolves names in a snapshot by a search path.
//
// A Column says how the server stores the column (Mapped, ServerName), and which value an INSERT without the column
// gets (fill.go). lookup.go judges a text by its words, before the text is parsed.
//
// Package proxy reads the catalog and makes snapshots. Package rewrite and its packages use them.
//
// Invariants:
//   - A NameResolver never changes. A Schema does not change after other goroutines have got it.
//   - Functions that judge a text by its words prefer false positives: the text may name a mapped or an unknown
//     relation.
package schema
