// Package schema holds the relations of a server, and finds the relations that names in SQL texts mean. A Schema is a
// snapshot of relations and their columns. A NameResolver finds relations in a snapshot by a search path.
//
// A Column says how the server stores the column (Mapped, ServerName), and which value an INSERT without the column
// gets (fill.go). lookup.go examines a text by its words before Sluice parses the text.
//
// Package proxy reads the catalog and makes snapshots. Package rewrite and its subpackages use them.
//
// Invariants:
//   - A NameResolver never changes. A Schema does not change after other goroutines have got it.
//   - Functions that examine a text by its words prefer false positives. They may report that the text names a mapped
//     or an unknown relation, although it does not.
package schema
