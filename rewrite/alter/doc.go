// Package alter plans ALTER TABLE and statements about enumerations that DSQL refuses.
//
// Package rewrite makes a Draft of a statement, and applies rules to the Draft: exported methods without parameters
// and results (draft.go). A rule edits the client's statement, or sets Steps, a plan of several statements that
// package proxy sends instead.
//
// Files: addednull.go edits statements that have an equal form on DSQL. alteration.go describes an ALTER TABLE of one
// column: a column with a DEFAULT (addeddefault.go) or with a sequence (addedserial.go, sequence.go), and a change of
// type (retype.go, retypeindex.go). constraint.go and constraintsteps.go are about added constraints. hints.go says
// what to write where Sluice does not carry a statement out, and refused.go reports it. A domain replaces an
// enumeration (enumeration.go), and enumvalue.go adds a value.
//
// Invariants:
//   - Steps have the meaning of the client's statement, which a comparison of parse trees shows. In doubt a rule plans
//     no steps.
//   - The package knows neither plans nor sessions, and sends nothing.
package alter
