package proxy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// An error that tells of a limit of DSQL says what the limit is, and that the application's
// own must be below it; a hint of the server's stays, and so does any other error, and all that
// a PostgreSQL says.
func TestHintsOfLimits(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", `CREATE FUNCTION fail(code text, message text, hint text) RETURNS int LANGUAGE plpgsql AS $$
		BEGIN
			IF hint = '' THEN RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message; END IF;
			RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, HINT = hint;
		END $$;
		CREATE TABLE late (code text, message text);
		CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN fail(NEW.code, NEW.message, ''); END $$;
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()`)
	const own = "If the application has a limit of its own for this, set it below."
	dsql, postgres := startSluice(t, pg, asDSQL, withReplay), startSluice(t, pg)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		c, plain := connectTo(t, dsql, "postgres", mode), connectTo(t, postgres, "postgres", mode)
		for message, limit := range map[string]string{
			"transaction row limit exceeded":                                    "3,000 rows",
			"transaction size limit 10mb exceeded":                              "10 MiB",
			"transaction age limit of 300s exceeded":                            "5 minutes",
			"datatype limit greater than 1048576 bytes not supported for bytea": "1 MiB",
			"maximum column size exceeded":                                      "1 MiB",
			"maximum row size exceeded":                                         "2 MiB",
			"key size too large":                                                "2,000 bytes",
		} {
			what := fmt.Sprintf("%s, %s", mode, message)
			_, err := c.Exec(t.Context(), "SELECT fail('54000', $1, '')", message)
			failsAs(t, what, err, "54000", message, limit, own)
			_, err = c.Exec(t.Context(), "SELECT fail('54000', $1, 'the server knows better')", message)
			failsAs(t, what, err, "54000", message, "the server knows better")
			lacks(t, what, err, own)
			_, err = c.Exec(t.Context(), "SELECT fail('54001', $1, '')", message)
			failsAs(t, what, err, "54001", message)
			lacks(t, what, err, own)
			_, err = plain.Exec(t.Context(), "SELECT fail('54000', $1, '')", message)
			failsAs(t, what, err, "54000", message)
			lacks(t, what, err, own)
			run(t, c, "BEGIN")
			if _, err = c.Exec(t.Context(), "INSERT INTO late VALUES ('54000', $1)", message); err != nil {
				t.Fatal(err)
			}
			_, err = c.Exec(t.Context(), "COMMIT")
			failsAs(t, what+", COMMIT", err, "54000", message, limit, own)
		}
	}
}

// lacks checks that the hint of an error does not hold a text.
func lacks(t *testing.T, what string, err error, text string) {
	t.Helper()
	var e *pgconn.PgError
	if errors.As(err, &e) && strings.Contains(e.Hint, text) {
		t.Errorf("%s: %q is in the hint", what, text)
	}
}
