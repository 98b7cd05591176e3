package parse

import (
	"strings"
	"testing"

	"github.com/pganalyze/pg_query_go/v6/parser"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
)

// The parser is given no text whose tree is much larger than the text.
func TestGuardCountsCopies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sql string
		why GuardReason
	}{
		{sqltexts.NestedAssignment(2, 0), Fits}, {sqltexts.NestedAssignment(100, 0), Fits}, {sqltexts.NestedAssignment(8, 2), Fits}, {sqltexts.NestedAssignment(8, 7), TooLong}, {sqltexts.NestedAssignment(2, 30), TooLong}, {sqltexts.NestedAssignment(1, 30), Fits}, {sqltexts.NestedAssignment(1000, 0), TooLong},
		{strings.Replace(sqltexts.NestedAssignment(8, 7), ") =", ") /* = */ = -- =\n", -1), TooLong}, {strings.Replace(sqltexts.NestedAssignment(8, 7), "SET b = 1,", "Set b = CASE WHEN true THEN 1 END,", -1), TooLong},
		{strings.Replace(sqltexts.NestedAssignment(8, 7), "(a,", "(a.where,", -1), TooLong}, {strings.Replace(sqltexts.NestedAssignment(8, 7), "(a,", "(a[1],", -1), TooLong},
		{"UPDATE t SET (a, b, c) = (1, 2, 3) WHERE d IN (" + strings.Repeat("1, ", 100_000) + "1)", Fits},
		{"UPDATE t SET (a, b, c) = (1, 2, 3), d = ARRAY[" + strings.Repeat("1, ", 100_000) + "1]", Fits},
		{"UPDATE t SET (a, b) = (1, 2) RETURNING ARRAY[" + strings.Repeat("1, ", 100_000) + "1]", Fits},
		{"UPDATE t SET (a, b, c) = (1, 2, 3); SELECT " + strings.Repeat("1, ", 100_000) + "1", Fits},
		{"UPDATE t SET (a, b, c) = (1, a.where + ARRAY[" + strings.Repeat("1, ", 100_000) + "1], 3)", TooLong},
		{"INSERT INTO t (a, b) VALUES " + strings.Repeat("(1, 2), ", 50_000) + "(1, 2)", Fits},
	} {
		if why := CheckLimits([]byte(test.sql), usualBytes, usualNesting); why != test.why {
			t.Errorf("%.80s ... of %d bytes: %d, want %d", test.sql, len(test.sql), why, test.why)
		}
		if test.why != Fits || len(test.sql) > 10_000 {
			continue
		}
		wire, err := parser.ParseToProtobuf(test.sql)
		if err != nil {
			t.Error(err)
		} else if most := 200 * (len(test.sql) + copiedTokens); len(wire) > most {
			t.Errorf("%.80s ... of %d bytes has a tree of %d", test.sql, len(test.sql), len(wire))
		}
	}
}
