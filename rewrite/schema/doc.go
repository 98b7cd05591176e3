// Package schema says what the relations of a server are, and what names in a text stand for. A Schema is a snapshot
// of relations and their columns. Names looks names up in it by a search path.
//
// A Column says how the server stores it (Mapped, Physical), and with what the server fills it in an INSERT that leaves
// it out (fill.go). lookup.go looks at the names in a text before anybody parses it.
//
// The relay reads the catalog and makes snapshots; package rewrite and those around it read them.
//
// Invariants:
//   - A Schema that others have, and Names, never change.
//   - What looks at a text by its words errs towards names that concern the mapping, or that the snapshot lacks.
package schema
