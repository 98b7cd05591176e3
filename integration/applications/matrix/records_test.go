package matrix

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// The recorder knows which statement an error was about, in either protocol, and takes nothing twice.
func TestRecorder(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	via := startRecorder(t, server.Address())
	url := fmt.Sprintf("postgresql://%s@127.0.0.1:%d/postgres?sslmode=prefer", server.User, via.port)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Prepare(t.Context(), "quotient", "SELECT 1 / $1::int"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		sql, statement, code string
		args                 []any
	}{
		{"SELECT 1", "", "", nil},
		{"SELECT nothing", "SELECT nothing", "42703", nil},
		{"SELECT nothing", "SELECT nothing", "42703", []any{pgx.QueryExecModeSimpleProtocol}},
		{"quotient", "", "", []any{1}},
		{"quotient", "SELECT 1 / $1::int", "22012", []any{0}},
	} {
		_, err := conn.Exec(t.Context(), test.sql, test.args...)
		refused := via.take()
		if test.code == "" {
			if err != nil || len(refused) != 0 {
				t.Errorf("%s: %v, %+v", test.sql, err, refused)
			}
			continue
		}
		if err == nil || len(refused) != 1 || refused[0].code != test.code || refused[0].statement != test.statement || refused[0].message == "" {
			t.Errorf("%s: %v, %+v", test.sql, err, refused)
		}
	}
}
