package proxy_test

import (
	"strings"
	"testing"
)

// An error of Sluice's own behind frames of a group is told whatever statements the client
// has prepared in SQL.
func TestRefusedBehindStatementsOfAnyName(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, func(s *setup) { s.proxy.MaxStatementBytes = 64 << 10 })
	got := perform(t, s.addr, "Q PREPARE sluice_refused AS SELECT 'hers'\n< Z\n"+
		"P - | SELECT 1 AS one\nB - | -\nE -\nP - | SELECT '"+strings.Repeat("x", 80<<10)+"'\nS\n< Z\nQ SELECT 2 AS two\n< Z\n")
	if !strings.Contains(got, "C=54000") || strings.Count(got, "\n2") != 1 || !strings.Contains(got, "C SELECT 1") {
		t.Errorf("got:\n%s", got)
	}
}
