package rewriting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// indexedColumns are columns of random tables, with types that they are given, and what indexes may say of
// them: keys, and conditions. The name is in the place of %[1]s, and that of another column in the place of %[2]s.
var indexedColumns = []struct {
	types, keys, conditions []string
	value                   string
}{
	{[]string{"varchar(12)", "text", "char(9)", "varchar(3)", "varchar(1)"},
		[]string{"%[1]s", "%[1]s", "lower(%[1]s)", "(lower(%[1]s) || 'x')", "(%[1]s || %[2]s)", "(coalesce(%[1]s, 'none'))", "((%[1]s IS NULL))", "length(%[1]s)", "(100 / length(%[1]s))", "((%[1]s)::varchar(2))",
			"(upper(%[1]s::text) || '')", "md5(%[1]s)", "substr(%[1]s, 1, 2)", "(CASE WHEN %[1]s > 'b' THEN 1 ELSE 2 END)", "(nullif(%[1]s, 'a'))", "(greatest(%[1]s, 'b'))", "(%[1]s LIKE 'a%%')"},
		[]string{"%[1]s IS NULL", "%[1]s IS NOT NULL", "%[1]s <> 'x'", "%[1]s IN ('a', 'it''s', 'c')", "lower(%[1]s) = 'a' OR %[2]s IS NOT NULL", "NOT (%[1]s = 'a')", "%[1]s IS DISTINCT FROM 'a'", "coalesce(%[1]s, '') = ''",
			"%[1]s > 'a' AND %[2]s IS NULL", "%[1]s ~ '^[a-c]' AND %[1]s IS NOT NULL", "%[1]s BETWEEN 'a' AND 'm'", "length(%[1]s) < 3", "(%[1]s = 'a') IS NOT TRUE"},
		"(ARRAY['a', 'b', 'c', 'it''s', 'abc', '', NULL, 'Ä', 'x '])[1 + i * %d %% 9]"},
	{[]string{"int", "bigint", "smallint", "numeric", "numeric(4,1)", "float8", "real"},
		[]string{"%[1]s", "%[1]s", "(%[1]s + 1)", "(%[1]s %% 3)", "(%[1]s & 1)", "abs(%[1]s)", "(coalesce(%[1]s, 0))", "(100 / (coalesce(%[1]s, 0) - 99))", "((%[1]s)::text)", "(-%[1]s)", "(%[1]s * %[1]s)", "round(%[1]s)", "(CASE WHEN %[1]s = 1 THEN NULL ELSE %[1]s END)"},
		[]string{"%[1]s IS NULL", "%[1]s IS NOT NULL", "%[1]s > 3", "%[1]s IN (1, 2, 3)", "%[1]s %% 2 = 1", "%[1]s > 0 OR %[2]s IS NULL", "%[1]s + 1 > 2 AND NOT %[1]s = 7", "%[1]s IS DISTINCT FROM 1"},
		"nullif(i * %d %% 11, 5)"},
}

// indexedNames are names of the columns: the table is thing, and the index of the column is its kind.
var indexedNames = []string{`"Odd ""name"`, "word", "n", `"Select"`}

// reindexed makes random indexes of such a table, and changes of its types.
type reindexed struct{ random *rand.Rand }

func (r *reindexed) pick(of []string) string { return of[r.random.IntN(len(of))] }

// table makes it with rows and indexes, each statement by itself.
func (r *reindexed) table() (all []string) {
	var columns, values []string
	for i, name := range indexedNames {
		kind := indexedColumns[i/2]
		columns = append(columns, name+" "+kind.types[r.random.IntN(2)]+[]string{"", "", " NOT NULL", " DEFAULT '1'"}[r.random.IntN(4)*r.random.IntN(2)])
		values = append(values, "coalesce("+fmt.Sprintf(kind.value, r.random.IntN(5))+", '"+r.pick([]string{"1", "2"})+"')")
		if !strings.Contains(columns[i], "NOT NULL") && r.random.IntN(3) > 0 {
			values[i] = fmt.Sprintf(kind.value, r.random.IntN(5))
		}
	}
	all = []string{"CREATE TABLE thing (id int PRIMARY KEY, " + strings.Join(columns, ", ") + ")",
		"INSERT INTO thing SELECT i, " + strings.Join(values, ", ") + " FROM generate_series(1, 12) i"}
	if r.random.IntN(5) == 0 {
		all = all[:1]
	}
	for i := range 1 + r.random.IntN(4) {
		all = append(all, r.index(i))
	}
	return all
}

func (r *reindexed) index(i int) string {
	say := func(conditions bool) string {
		n := r.random.IntN(4)
		of := indexedColumns[n/2].keys
		if conditions {
			of = indexedColumns[n/2].conditions
		}
		return fmt.Sprintf(r.pick(of), indexedNames[n], indexedNames[n/2*2+r.random.IntN(2)])
	}
	unique := r.random.IntN(3) == 0
	sql := "CREATE INDEX "
	if unique {
		sql = "CREATE UNIQUE INDEX "
	}
	sql += fmt.Sprintf(`"thing %d" ON thing (`, i) + say(false)
	for range r.random.IntN(2) {
		sql += ", " + say(false)
	}
	if unique && r.random.IntN(3) > 0 {
		sql += ", id"
	}
	sql += ")" + []string{"", "", "", " INCLUDE (word)", ` INCLUDE ("Select", id)`}[r.random.IntN(5)]
	if unique && r.random.IntN(4) == 0 {
		sql += " NULLS NOT DISTINCT"
	}
	if r.random.IntN(2) == 0 {
		sql += " WHERE " + say(true)
	}
	return sql
}

// retype changes the type of one of the columns.
func (r *reindexed) retype() string {
	n := r.random.IntN(4)
	kind := r.pick(indexedColumns[n/2].types)
	return "ALTER TABLE thing ALTER COLUMN " + indexedNames[n] + " TYPE " + kind + []string{"", " USING " + indexedNames[n] + "::" + kind}[r.random.IntN(4)/3]
}

// things is what the catalog and the rows of such a table are, but for the order of the columns.
const things = `SELECT string_agg(x, E'\n' ORDER BY x) FROM (
	SELECT format('%s %s %s', attname, format_type(atttypid, atttypmod), substring(pg_get_expr(adbin, adrelid) from '^[^:]*')) x
		FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attnum > 0 AND NOT attisdropped AND attrelid = 'thing'::regclass
	UNION ALL SELECT format('%s %s %s', pg_get_indexdef(indexrelid), indisvalid, pg_get_indexdef(indexrelid, 1, true)) FROM pg_index WHERE indrelid = 'thing'::regclass
	UNION ALL SELECT format('%s %s', conname, convalidated) FROM pg_constraint WHERE conrelid = 'thing'::regclass AND contype NOT IN ('n', 'c')
	UNION ALL SELECT 'row ' || (SELECT string_agg(key || '=' || coalesce(value, '-'), ' ' ORDER BY key) FROM jsonb_each_text(to_jsonb(of_thing))) FROM thing of_thing) y`

// Random tables whose columns are in partial indexes, in expressions of indexes and in their conditions:
// a column gets another type as it does in PostgreSQL, with the same indexes behind it, or with the
// same error and nothing changed.
func TestRetypedIndexesAsInPostgreSQL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_ALTER_COLUMN_TYPE": "rewrite", "DSQL_DDL_SET_NOT_NULL": "check"})
	seed := uint64(time.Now().UnixNano())
	t.Log("seed ", seed)
	r := &reindexed{random: rand.New(rand.NewPCG(seed, 0))}
	databases := []string{"postgres", "plain"}
	var conns [2]*pgx.Conn
	for i, dsn := range []string{sluice.DSN("postgres"), pg.DSN("plain")} {
		conns[i] = connectedTo(t, dsn, pgx.QueryExecModeSimpleProtocol)
	}
	told, indexes := map[string]int{}, map[string]int{}
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end); {
		var made []string
		for _, database := range databases {
			pg.SQL(t, database, "DROP TABLE IF EXISTS thing")
		}
		for _, sql := range r.table() {
			if _, err := conns[1].Exec(ctx, sql); err != nil { // rows that are against it, or a function that the type has not
				if strings.HasPrefix(sql, "CREATE TABLE") {
					t.Fatalf("%s: %v", sql, err)
				}
				continue
			}
			pg.SQL(t, "postgres", sql)
			made = append(made, sql)
		}
		for range 3 {
			sql := r.retype()
			made = append(made, sql)
			var errs [2]error
			for i, conn := range conns {
				_, errs[i] = conn.Exec(ctx, sql)
			}
			got, want := inBrief(errs[0]), inBrief(errs[1])
			if got != want {
				t.Fatalf("%s:\n got %s %s\nwant %s", strings.Join(made, ";\n"), got, whole(errs[0]), want)
			}
			if got, want := ofBareNumerics(listsAlike(pg.SQL(t, "postgres", things))), ofBareNumerics(listsAlike(pg.SQL(t, "plain", things))); got != want {
				t.Fatalf("%s:\n%s", strings.Join(made, ";\n"), differing(got, want))
			}
			told[code(errs[1])]++
			if errs[1] == nil {
				for _, sql := range made {
					for _, word := range []string{"WHERE", "(("} {
						if strings.Contains(sql, "INDEX") && strings.Contains(sql, word) {
							indexes[word]++
						}
					}
				}
			}
		}
	}
	if t.Log(told, indexes); told[""] < 10 || indexes["WHERE"] < 5 {
		t.Errorf("%v, %v", told, indexes)
	}
}

// shownList is such a list without parentheses, and castOf a cast in it.
var (
	shownList = regexp.MustCompile(`ARRAY\[[^\]]*\](::\w+)?`)
	castOf    = regexp.MustCompile(`::\w+`)
)

// listsAlike leaves casts out of a list (IN), which the server shows in one way behind CREATE INDEX and in another
// behind ALTER TABLE, even where the column has the type already: (ARRAY['a'::character varying])::text[] and
// ARRAY[('a'::character varying)::text].
func listsAlike(shown string) string {
	lines := strings.Split(shown, "\n")
	for i, line := range lines {
		if strings.Contains(line, "ARRAY[") {
			line = strings.NewReplacer("::character varying", "", "::text", "", "[]", "", "(", "", ")", "").Replace(line)
			lines[i] = shownList.ReplaceAllStringFunc(line, func(list string) string { return castOf.ReplaceAllString(list, "") })
		}
	}
	return strings.Join(lines, "\n")
}

// inBrief is an error without its detail, which names one of several rows.
func inBrief(err error) string {
	if e := pgError(err); e != nil {
		return e.Code + " " + e.Message
	}
	return fmt.Sprint(err)
}

// An index that the rows are against for the new type, or whose expression fails for one, is told as PostgreSQL
// tells it.
func TestRetypedIndexesRefused(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_CARRY_OUT": "all"})
	for index, state := range map[string]string{
		`CREATE UNIQUE INDEX "Odd index" ON thing ((n * 2), lower(word))`:                    "23505",
		"CREATE UNIQUE INDEX thing_n ON thing (coalesce(n, 5), word)":                        "23505",
		"CREATE UNIQUE INDEX thing_n ON thing (m, n) NULLS NOT DISTINCT WHERE n IS NOT NULL": "23505",
		"CREATE INDEX thing_n ON thing ((100 / n)) WHERE id < 9":                             "22012",
	} {
		var errs [2]string
		for i, database := range []string{"postgres", "plain"} {
			pg.SQL(t, database, `DROP TABLE IF EXISTS thing; CREATE TABLE thing (id int PRIMARY KEY, n numeric, m int, word varchar(9));
				INSERT INTO thing VALUES (1, 0.4, NULL, 'a'), (2, 0.3, NULL, 'a')`)
			pg.SQL(t, database, index)
			_, err := connectedTo(t, []string{sluice.DSN("postgres"), pg.DSN("plain")}[i], pgx.QueryExecModeSimpleProtocol).Exec(ctx, "ALTER TABLE thing ALTER COLUMN n TYPE int")
			errs[i] = whole(err)
		}
		if errs[0] != errs[1] || codeIn(errs[0]) != state {
			t.Errorf("%s:\n got %s\nwant %s", index, errs[0], errs[1])
		}
		if got, want := pg.SQL(t, "postgres", things), pg.SQL(t, "plain", things); got != want {
			t.Errorf("%s:\n%s", index, differing(got, want))
		}
	}
}

// While a column gets another type, others are told nothing of an index that would refuse a row only for the
// value that the new column has not got yet.
func TestRetypedIndexesWhileOthersWrite(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg := pgtest.Start(t, pgtest.MaxConnections(100))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg, Args: []string{"--job-delay", "300ms"}})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "20", "DSQL_DDL_CARRY_OUT": "all"})})
	pg.SQL(t, "postgres", `CREATE TABLE opened (id int PRIMARY KEY, owner int NOT NULL, closed varchar(9), code varchar(9));
		CREATE UNIQUE INDEX opened_once ON opened (owner) WHERE closed IS NULL; CREATE UNIQUE INDEX opened_code ON opened ((coalesce(code, 'none')));
		CREATE INDEX opened_length ON opened ((100 / coalesce(length(code), 0))); CREATE UNIQUE INDEX opened_none ON opened (code) NULLS NOT DISTINCT; CREATE INDEX opened_early ON opened (lower(code)) WHERE code > 'b';
		INSERT INTO opened SELECT i, i % 40, CASE WHEN i > 40 THEN 'x' || i END, 'c' || i FROM generate_series(1, 400) i`)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	var mu sync.Mutex
	told := map[string]int{}
	for n := range 4 {
		conn := dialled(t, sluice, pgx.QueryExecModeExec)
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				id := 1000 + i*4 + n
				sql, args := "INSERT INTO opened (id, owner, closed, code) VALUES ($1, $2, $3, $4)", []any{id, id % 40, "y", fmt.Sprint("d", id)}
				if i%3 == 0 {
					sql, args = "UPDATE opened SET code = $2 WHERE id = $1", []any{id - 4, fmt.Sprint("e", id)}
				}
				_, err := conn.Exec(ctx, sql, args...)
				mu.Lock()
				told[code(err)]++
				mu.Unlock()
			}
		})
	}
	conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	for _, sql := range []string{"ALTER TABLE opened ALTER COLUMN closed TYPE text", "ALTER TABLE opened ALTER COLUMN code TYPE varchar(30)"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Errorf("%s: %v (%s)", sql, err, hintOf(err))
		}
	}
	close(stop)
	writers.Wait()
	for is := range told {
		if is != "" && is != "42703" && is != "40001" {
			t.Errorf("others are told %s %d times", is, told[is])
		}
	}
	if t.Log(told); told[""] < 50 {
		t.Errorf("others have written %d times only", told[""])
	}
}

// A row that is against a constraint which is NOT VALID cannot be written: the change of type is refused with that
// constraint's error, and nothing is changed.
func TestRetypeOfRowsAgainstAConstraint(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_CARRY_OUT": "all"})
	pg.SQL(t, "postgres", `CREATE TABLE thing (id int PRIMARY KEY, n int); INSERT INTO thing VALUES (1, 1), (2, -1);
		ALTER TABLE thing ADD CONSTRAINT loose CHECK (n > 0) NOT VALID`)
	before := pg.SQL(t, "postgres", things)
	conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	if _, err := conn.Exec(ctx, "ALTER TABLE thing ALTER COLUMN n TYPE bigint"); code(err) != "23514" || !strings.Contains(whole(err), "loose") {
		t.Errorf("%v (%s)", err, hintOf(err))
	}
	if got := pg.SQL(t, "postgres", things); got != before {
		t.Error(differing(got, before))
	}
	pg.SQL(t, "postgres", "UPDATE thing SET n = 2")
	if _, err := conn.Exec(ctx, "ALTER TABLE thing ALTER COLUMN n TYPE bigint"); err != nil {
		t.Errorf("%v (%s)", err, hintOf(err))
	}
	if got := pg.SQL(t, "postgres", "SELECT conname || convalidated FROM pg_constraint WHERE contype = 'c' AND conrelid = 'thing'::regclass"); got != "loosefalse" {
		t.Errorf("the constraint is %s", got)
	}
}
