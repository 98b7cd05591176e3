// Package alter plans ALTER TABLE statements, and statements about enumerations, that DSQL refuses.
//
// Package rewrite makes a Draft of a statement, and calls rules on it: exported methods of Draft without parameters and
// results (draft.go). A rule edits the client's statement, or sets Steps. Steps is a plan of several statements that
// package proxy sends in place of the client's statement.
//
// Files: addednull.go edits statements that have an equal form on DSQL. alteration.go describes an ALTER TABLE of one
// column. It adds a column with a DEFAULT (addeddefault.go) or with a sequence (addedserial.go, sequence.go), or
// changes a type (retype.go, retypeindex.go). constraint.go and constraintsteps.go are about added constraints. If
// Sluice does not carry out a statement, hints.go says what a person can write instead, and refused.go reports the
// statement. A domain replaces an enumeration (enumeration.go), and enumvalue.go adds a value to it.
//
// Invariants:
//   - Steps have the meaning of the client's statement, as a comparison of parse trees shows. In doubt a rule plans
//     no steps.
//   - The package knows neither plans nor sessions, and sends nothing.
package alter
