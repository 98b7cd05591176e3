package rewrite

import (
	"strings"
	"testing"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"github.com/sluice-proxy/sluice/rewrite/finding"
)

// The hint for an enumeration is a statement that can be sent as it stands, and says what the type
// would have said.
func TestHintsOfEnumerations(t *testing.T) {
	t.Parallel()
	p := goldenPlanner(t)
	for sql, want := range map[string]string{
		"CREATE TYPE mood AS ENUM ('sad', 'ok')":            `CREATE DOMAIN "mood" AS text CHECK (VALUE IN ('sad', 'ok'))`,
		`CREATE TYPE "S x"."M""d" AS ENUM ('it''s', 'a\b')`: `CREATE DOMAIN "S x"."M""d" AS text CHECK (VALUE IN ('it''s', E'a\\b'))`,
	} {
		got := p.Plan([]byte(sql)).Statements[0].Hint
		statement, _, _ := strings.Cut(strings.TrimPrefix(got, "Write "), "; or ")
		if statement != want {
			t.Errorf("%s: %s", sql, got)
		}
		tree, err := pg_query.Parse(statement)
		if err != nil || tree.Stmts[0].Stmt.GetCreateDomainStmt() == nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	for _, sql := range []string{"CREATE TYPE mood AS ENUM ()", "CREATE TYPE mood AS ENUM ('" + strings.Repeat("x", 2000) + "')", "CREATE TYPE pair AS (a int, b int)", "DROP TYPE mood"} {
		if got := p.Plan([]byte(sql)).Statements[0].Hint; got != finding.Sentence(finding.Remedy(finding.UserType)) {
			t.Errorf("%s: %s", sql, got)
		}
	}
}
