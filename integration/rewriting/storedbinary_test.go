package rewriting

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// heldQuery is of each type that has a binary form made of its text, with values at which it matters.
const heldQuery = "SELECT g, (0.1 + g)::float4 AS a, 0.1::float8 + 0.2::float8 + g AS b, (g * 1.500)::numeric AS c, date '2024-02-29' - g * 1000000 AS d, time '13:14:15.5' AS e, timestamp '2024-02-29 13:14:15.123456' - g * interval '1999 years' AS f, " +
	"timestamptz '2024-02-29 13:14:15.123456+00' - g * interval '1999 years' AS h, timetz '01:02:03+05:30' AS i, g * interval '-1 year 2 mons -3 days 04:05:06.7' AS j, CASE WHEN g = 2 THEN 'infinity'::timestamp END AS k, CASE g WHEN 1 THEN 'NaN' ELSE '-Infinity' END::float8 AS l FROM generate_series(0, 2) g"

// Rows of a cursor WITH HOLD that nobody has read inside its transaction are in the binary format what
// they are on PostgreSQL, whatever the settings were when they were read and whatever they are by now;
// or they are refused, and the text is there.
func TestHeldInBinary(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t, pgtest.MaxConnections(100))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "4"})})
	given, refused := 0, 0
	for _, before := range []string{"", "SET extra_float_digits = 3", "SET extra_float_digits = 0", "SET DateStyle = 'SQL, DMY'", "SET DateStyle = 'German'", "SET DateStyle = 'ISO, DMY'", "SET IntervalStyle = 'sql_standard'", "SET IntervalStyle = 'iso_8601'", "SET TimeZone = 'Europe/Amsterdam'"} {
		for _, behind := range []string{"", "SET extra_float_digits = 0", "SET extra_float_digits = 1", "SET DateStyle = 'Postgres'", "RESET ALL"} {
			for _, block := range []string{"", "BEGIN", "BEGIN; SET LOCAL extra_float_digits = -3", "BEGIN; SET extra_float_digits = -3; RESET extra_float_digits"} {
				say := func(dsn string, formats []int16) (said []string) {
					conn, err := pgconn.Connect(t.Context(), dsn)
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close(t.Context())
					declare := "DECLARE h NO SCROLL CURSOR WITH HOLD FOR " + heldQuery
					for _, sql := range strings.Split(before+"; "+block+"; "+declare+"; "+map[bool]string{true: "COMMIT"}[block != ""]+"; "+behind, "; ") {
						if _, err := conn.Exec(t.Context(), sql).ReadAll(); err != nil {
							t.Fatalf("%s: %v", sql, err)
						}
					}
					r := conn.ExecParams(t.Context(), "FETCH ALL FROM h", nil, nil, nil, formats).Read()
					if e, ok := r.Err.(*pgconn.PgError); ok {
						return []string{"error " + e.Code}
					} else if r.Err != nil {
						t.Fatal(r.Err)
					}
					for _, row := range r.Rows {
						said = append(said, fmt.Sprintf("%x", row))
					}
					return said
				}
				for column := range 12 {
					formats := make([]int16, 12)
					formats[column] = 1
					// Each type by itself, since one that is refused would hide the others; of several settings some.
					if (block != "" || behind != "") && column != 1 && column != 2 && column != 5 && column != 9 || block != "" && behind != "" && column != 2 {
						continue
					}
					near, far := say(sluice.DSN("postgres"), formats), say(pg.DSN("postgres"), formats)
					if slices.Equal(near, []string{"error 0A000"}) {
						if refused++; before+behind+block == "" {
							t.Errorf("column %d is refused", column)
						}
						continue
					}
					// The texts of PostgreSQL are made when they are fetched.
					if given++; !slices.Equal(columnOf(near, column), columnOf(far, column)) {
						t.Errorf("%q, %q, %q, column %d:\ngot  %s\nwant %s", before, block, behind, column, columnOf(near, column), columnOf(far, column))
					}
				}
			}
		}
	}
	if t.Logf("%d given, %d refused", given, refused); given < 2*refused || refused == 0 {
		t.Errorf("%d given, %d refused", given, refused)
	}
}

// columnOf is a column of rows that are written as lists of hexadecimal values.
func columnOf(rows []string, column int) (values []string) {
	for _, row := range rows {
		if all := strings.Split(strings.Trim(row, "[]"), " "); column < len(all) {
			values = append(values, all[column])
		} else {
			values = append(values, row)
		}
	}
	return values
}
