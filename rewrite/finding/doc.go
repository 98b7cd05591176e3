// Package finding describes uses of SQL in a statement that Aurora DSQL does not support as PostgreSQL does.
//
// A Feature names one unsupported part of SQL (features.go). For each feature, catalogue has the reason, and advice for
// a person. A Finding is one use of a feature in a text, and says what Sluice does with the statement (finding.go).
//
// The packages with rewriting rules make findings. Invariants:
//   - There is a fixed set of features, because a feature is a label of a metric.
//   - The texts of a finding are constants, and quote nothing of the client's statement.
package finding
