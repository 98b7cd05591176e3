// Package finding describes what a statement uses and Aurora DSQL does not support as PostgreSQL does.
//
// A Feature names one unsupported use (features.go). For each feature the catalogue has the reason, and advice for a
// person. A Finding is one use of a feature in a text, and says what Sluice did with the statement (finding.go).
//
// The packages of rewriting rules make findings. Invariants:
//   - The set of features is closed, because features label a metric.
//   - The texts of a finding are constants, and quote nothing of the client's statement.
package finding
