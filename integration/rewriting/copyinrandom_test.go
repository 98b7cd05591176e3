package rewriting

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

var copySessions = flag.Int("copyin.sessions", 40, "random sessions of COPY that TestCopyInRandom plays")

// randomCopies are the steps of a session: blocks, COPYs of random rows in random formats, some of
// which fail at one row, changes of rows and savepoints.
func randomCopies(r *rand.Rand) (steps [][2]string) {
	id := 1
	for range 3 + r.IntN(8) {
		switch r.IntN(9) {
		case 0:
			steps = append(steps, [2]string{"BEGIN"})
		case 1:
			steps = append(steps, [2]string{[]string{"COMMIT", "ROLLBACK"}[r.IntN(2)]})
		case 2:
			id++
			steps = append(steps, [2]string{fmt.Sprintf("INSERT INTO kept VALUES (%d, 'own', 1)", id)})
		case 3:
			steps = append(steps, [2]string{[]string{"SAVEPOINT a", "ROLLBACK TO a", "RELEASE a"}[r.IntN(3)]})
		default:
			steps = append(steps, randomCopy(r, &id))
		}
	}
	return append(steps, [2]string{[]string{"COMMIT", "ROLLBACK"}[r.IntN(2)]})
}

// randomCopy is a COPY with its data, in which one row at most is bad.
func randomCopy(r *rand.Rand, id *int) [2]string {
	csv, rows := r.IntN(2) == 0, r.IntN(90)
	delimiter, null, sql := "\t", `\N`, "COPY kept (n, id, v) FROM STDIN"
	if csv {
		delimiter, null, sql = ",", "", sql+" (FORMAT csv)"
	}
	if r.IntN(5) == 0 {
		sql = strings.Replace(sql, "kept", "public.kept", 1)
	}
	bad := -1
	if r.IntN(3) == 0 && rows > 0 {
		bad = r.IntN(rows)
	}
	var b strings.Builder
	for i := range rows {
		*id++
		fields := []string{[]string{"1", "2.345", " 7 ", "99"}[r.IntN(4)], fmt.Sprint(*id), []string{"it's", "ü", null, "x"}[r.IntN(4)]}
		if i == bad {
			switch r.IntN(7) {
			case 0:
				fields[0] = "-1"
			case 1:
				fields[0] = null
			case 2:
				fields[1] = "x'ü"
			case 3:
				fields[1] = "1"
			case 4:
				fields[2] = "too long"
			case 5:
				fields = fields[:2]
			case 6:
				fields = append(fields, "more")
			}
		}
		b.WriteString(strings.Join(fields, delimiter) + "\n")
	}
	return [2]string{sql, b.String()}
}

var linesOf = regexp.MustCompile(`COPY kept, lines (\d+) to (\d+)`)
var lineOfCopy = regexp.MustCompile(`COPY kept, line (\d+)[^|]*`)

// likeLines reports whether Sluice may give an answer for one of PostgreSQL's: in a block an error
// that no constant has, has the lines of its INSERT, and elsewhere the line, but no column.
func likeLines(got, want string) bool {
	lines, line := linesOf.FindStringSubmatch(got), lineOfCopy.FindStringSubmatch(want)
	if place := lineOfCopy.FindStringSubmatch(got); place != nil && line != nil && strings.HasPrefix(want, "22001") {
		return place[1] == line[1] && strings.Replace(got, place[0], "", 1) == strings.Replace(want, line[0], "", 1)
	}
	if got == want || lines == nil || line == nil {
		return got == want
	}
	var from, to, at int
	fmt.Sscan(lines[1], &from)
	fmt.Sscan(lines[2], &to)
	fmt.Sscan(line[1], &at)
	return from <= at && at <= to && strings.Replace(got, lines[0], "", 1) == strings.Replace(want, strings.TrimRight(line[0], " "), "", 1)
}

// Sessions with COPY in them are answered as by PostgreSQL, and leave the same rows, whatever
// conflicts their transactions meet.
func TestCopyInRandom(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startCopies(t, harness.Env{"DSQL_RETRY_MAX_RETRIES": "20", "DSQL_RETRY_BASE_DELAY": "1ms"})
	for _, database := range []string{"postgres", "reference"} {
		r.pg.SQL(t, database, "CREATE TABLE kept (id int PRIMARY KEY, v varchar(4), n numeric(6,2) NOT NULL CHECK (n > 0))")
	}
	tags, failed := 0, 0
	for seed := range uint64(*copySessions) {
		steps := randomCopies(rand.New(rand.NewPCG(3, seed)))
		var said [2][]string
		for i, where := range []struct{ database, dsn string }{{"reference", r.pg.DSN("reference")}, {"postgres", r.sluice.DSN("postgres")}} {
			r.pg.SQL(t, where.database, "TRUNCATE kept; INSERT INTO kept VALUES (1, 'one', 1)")
			c, _ := r.dial(t, where.dsn)
			if i == 1 && seed%2 == 0 {
				r.sim.Admin(t, "POST", "/faults", `[{"at": "commit", "action": "fail", "error": "conflict", "count": 2}]`)
			}
			said[i] = playCopies(ctx, c, steps)
			r.sim.Admin(t, "DELETE", "/faults", "")
			c.Close(ctx)
			said[i] = append(said[i], r.pg.SQL(t, where.database, "SELECT * FROM kept ORDER BY id"))
		}
		for i, want := range said[0] {
			if strings.HasPrefix(want, "COPY") {
				tags++
			} else if strings.Contains(want, "COPY kept") {
				failed++
			}
			if got := said[1][i]; !likeLines(got, want) {
				t.Fatalf("session %d, step %d of %q\n got %s\nwant %s", seed, i, steps[:min(i+1, len(steps))], got, want)
			}
		}
	}
	if t.Logf("%d COPYs, and %d that failed", tags, failed); tags < *copySessions || failed < *copySessions/5 {
		t.Error("too few: the sessions are not what they should be")
	}
}

// playCopies has a session take the steps, and tells their answers.
func playCopies(ctx context.Context, c *pgconn.PgConn, steps [][2]string) (said []string) {
	for _, step := range steps {
		if strings.HasPrefix(step[0], "COPY") {
			said = append(said, copyAnswer(ctx, c, step[0], step[1])+" "+string(c.TxStatus()))
			continue
		}
		said = append(said, strings.Join(slices.DeleteFunc(answers(ctx, c, step[0], false), func(s string) bool { return s == "" }), " "))
	}
	return said
}
