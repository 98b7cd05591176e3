package proxy_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

const (
	behindTable = "CREATE TABLE behind (v text, at timestamptz DEFAULT now());"
	micros      = "(extract(epoch FROM now()) * 1000000)::bigint AS micros"
	storedAt    = "(extract(epoch FROM at) * 1000000)::bigint AS micros"
)

// behindEnds are what is sent behind the end of a block in the same request: of another transaction, which is
// one.
var behindEnds = [][]string{
	{"SELECT " + micros}, {"INSERT INTO behind DEFAULT VALUES"}, {"INSERT INTO behind VALUES ('x') RETURNING " + storedAt}, {"SELECT now()"},
	{"SELECT " + micros, "INSERT INTO behind (v) VALUES ('x')"},
	{"BEGIN", "SELECT " + micros, "INSERT INTO behind (v) VALUES ('x') RETURNING " + storedAt, "SELECT now()"},
	{"BEGIN", "INSERT INTO behind (v) VALUES ('x'), ('y') RETURNING at", "COMMIT"},
}

// clockOf is the time by the server, in microseconds.
func clockOf(t *testing.T, pg postgres) string {
	t.Helper()
	return pg.SQL(t, "postgres", "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
}

// endBehind ends the block, and does something behind it in the same string or pipeline. What is told and stored
// there is of one time, which is later.
func (d *timedDialogue) endBehind(end string) error {
	told := d.told
	d.told = nil
	defer func() { d.told = told }()
	all := append([]string{end}, behindEnds[d.r.IntN(len(behindEnds))]...)
	now := clockOf(d.t, d.pg)
	if d.r.IntN(2) == 0 {
		if err := d.runBatch(all); err != nil {
			return err
		}
	} else {
		d.said = append(d.said, strings.Join(all, "; "))
		results, err := d.c.PgConn().Exec(d.t.Context(), strings.Join(all, "; ")).ReadAll()
		if err != nil {
			return err
		}
		for _, r := range results {
			for _, row := range r.Rows {
				if r.FieldDescriptions[0].Name == "micros" {
					d.told = append(d.told, string(row[0]))
				}
			}
		}
	}
	if d.c.PgConn().TxStatus() != 'I' {
		if err := d.run("COMMIT"); err != nil {
			return err
		}
	}
	next := append(d.told, strings.Fields(d.pg.SQL(d.t, "postgres", "SELECT (extract(epoch FROM at) * 1000000)::bigint FROM behind"))...)
	slices.Sort(next)
	if next = slices.Compact(next); len(next) > 1 || len(next) == 1 && next[0] < now {
		d.t.Errorf("behind the end, at %s: times %v, behind %v", now, next, told)
	}
	return nil
}

// What stands behind the end of a block in the same request is of another transaction, and of its time: where the
// block was returned to a savepoint, and where its end met a conflict.
func TestTimeBehindAnEnd(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", timedTables+behindTable)
	s := startSluice(t, pg, strictly, mapping, maxOpen(4))
	for _, conflict := range []bool{false, true} {
		for _, end := range []string{"COMMIT", "ROLLBACK", "COMMIT; BEGIN; COMMIT"} {
			for _, behind := range behindEnds {
				for _, pipelined := range []bool{false, true} {
					pg.SQL(t, "postgres", "DELETE FROM behind")
					stumbles(t, pg, conflict)
					c := connectTo(t, s, "postgres", pgx.QueryExecModeExec)
					run(t, c, "BEGIN")
					var first string
					if err := c.QueryRow(t.Context(), "INSERT INTO timed (v) VALUES ('a') RETURNING (SELECT (extract(epoch FROM now()) * 1000000)::bigint::text), at").Scan(&first, nil); err != nil {
						t.Fatal(err)
					}
					if !conflict {
						run(t, c, "SAVEPOINT a", "INSERT INTO timed (v) VALUES ('b')", "ROLLBACK TO a")
					} else if strings.HasPrefix(end, "COMMIT") {
						run(t, c, "INSERT INTO late VALUES (1)")
					}
					all := append(strings.Split(end, "; "), behind...)
					name := fmt.Sprintf("conflict %v, pipelined %v, %v", conflict, pipelined, all)
					now := clockOf(t, pg)
					var told []string
					if pipelined {
						var batch pgx.Batch
						for _, sql := range all {
							batch.Queue(sql)
						}
						results := c.SendBatch(t.Context(), &batch)
						for range all {
							rows, err := results.Query()
							if err != nil {
								t.Fatalf("%s: %s", name, detailOf(err))
							}
							for rows.Next() {
								values, _ := rows.Values()
								if n, ok := values[0].(int64); ok {
									told = append(told, strconv.FormatInt(n, 10))
								}
							}
						}
						if err := results.Close(); err != nil {
							t.Fatalf("%s: %s", name, detailOf(err))
						}
					} else {
						results, err := c.PgConn().Exec(t.Context(), strings.Join(all, "; ")).ReadAll()
						if err != nil {
							t.Fatalf("%s: %s", name, detailOf(err))
						}
						for _, r := range results {
							if len(r.Rows) == 1 && r.FieldDescriptions[0].Name == "micros" {
								told = append(told, string(r.Rows[0][0]))
							}
						}
					}
					if c.PgConn().TxStatus() == 'T' {
						run(t, c, "COMMIT")
					}
					told = append(told, strings.Fields(pg.SQL(t, "postgres", "SELECT (extract(epoch FROM at) * 1000000)::bigint FROM behind"))...)
					slices.Sort(told)
					if told = slices.Compact(told); len(told) > 1 || len(told) == 1 && told[0] < now {
						t.Errorf("%s: the block's time is %s, its end came at %s, and behind it are %v", name, first, now, told)
					}
					if err := c.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
}
