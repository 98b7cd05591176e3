package rewriting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// moods are values of enumerations: some in the order of their texts, some not, and odd ones.
var moods = [][]string{{"sad", "ok", "happy"}, {"a", "b", "c"}, {"one"}, {"it's", `a\b`, "", " x ", "Größe", "--", "/*"}, {"Z", "a", "z"}}

// enumerated makes random statements about enumerations.
type enumerated struct {
	random *rand.Rand
	values []string // of the type that was asked for last
}

func (e *enumerated) pick(of ...string) string { return of[e.random.IntN(len(of))] }

func (e *enumerated) create() string {
	e.values = moods[e.random.IntN(len(moods))]
	var list []string
	for _, v := range e.values {
		list = append(list, "'"+strings.ReplaceAll(v, "'", "''")+"'")
	}
	return "CREATE TYPE " + e.pick("mood", "mood", "public.mood", `"Odd ""type"`, "nowhere.mood") + e.pick(" AS ENUM (", " as enum(") + strings.Join(list, e.pick(",", ", ")) + ")"
}

// block is a DO block that is run by what is in it.
func (e *enumerated) block() string {
	statement := e.create()
	switch e.random.IntN(5) {
	case 4:
		statement = e.add()
	case 0:
		statement = "ALTER TABLE person ADD CONSTRAINT " + e.pick("positive", "positive", "other") + " CHECK (id > " + e.pick("0", "0", "1") + ")"
	case 1:
		statement = "CREATE TABLE " + e.pick("person", "pet", "nowhere.pet") + " (id int)"
	}
	body := "BEGIN " + statement + "; EXCEPTION WHEN " + e.pick("duplicate_object", "duplicate_object OR duplicate_table", "duplicate_table THEN null; WHEN duplicate_object") + " THEN " + e.pick("null", "NULL") + "; END"
	switch e.random.IntN(4) {
	case 0:
		body = "BEGIN IF NOT EXISTS (SELECT 1 FROM pg_type WHERE typname = 'mood') THEN " + statement + "; END IF; END"
	case 1:
		body = "begin\n " + statement + ";\nend"
	}
	return "DO " + e.pick("$$ ", "LANGUAGE plpgsql $$", "$$") + body + e.pick("", ";", "; ") + "$$"
}

func (e *enumerated) value() string {
	if len(e.values) == 0 || e.random.IntN(6) == 0 {
		return "none of them"
	}
	return e.values[e.random.IntN(len(e.values))]
}

// added are values that are added to enumerations.
var added = []string{"new", "it's new", `n\w`, "", "Ä", "sad", "ok", strings.Repeat("x", 63), strings.Repeat("ä", 32), "none of them"}

// add adds a value to a type.
func (e *enumerated) add() string {
	say := func(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }
	value := e.pick(added...)
	sql := e.pick("ALTER TYPE ", "alter type ") + e.pick("mood", "mood", "mood", "public.mood", `"Odd ""type"`, "nowhere.mood", "nothing", "person", "text") + " ADD VALUE " + e.pick("", "", "IF NOT EXISTS ") + say(value) +
		e.pick("", "", " BEFORE "+say(e.value()), " AFTER "+say(e.value()))
	if e.random.IntN(3) == 0 {
		e.values = append(slices.Clone(e.values), value)
	}
	return sql
}

// statement is one of any kind.
func (e *enumerated) statement() string {
	value := "'" + strings.ReplaceAll(e.value(), "'", "''") + "'"
	switch e.random.IntN(15) {
	case 12, 13, 14:
		return e.add()
	case 0, 1:
		return e.create()
	case 2, 3:
		return e.block()
	case 4:
		return "DROP TYPE " + e.pick("", "IF EXISTS ") + e.pick("mood", "public.mood", `"Odd ""type"`, "mood, nothing", "nothing", "nowhere.mood") + e.pick("", "", " RESTRICT", " CASCADE")
	case 5:
		return "CREATE TABLE person (id int PRIMARY KEY, now mood" + e.pick("", " NOT NULL", " DEFAULT "+value, " DEFAULT "+value+"::mood NOT NULL") + ")"
	case 6:
		return "DROP TABLE IF EXISTS person"
	case 7:
		return "INSERT INTO person VALUES (" + fmt.Sprint(e.random.IntN(1000)) + ", " + e.pick(value, "NULL", value+"::mood", "CAST ("+value+" AS mood)", "DEFAULT") + ")"
	case 8:
		return "UPDATE person SET now = " + value
	case 9:
		return "SELECT " + value + "::mood::text"
	case 10:
		return "SELECT id, now, now = " + value + ", now::text || 'x' FROM person ORDER BY id"
	}
	return "SELECT count(*), count(DISTINCT now) FROM person WHERE now IN (" + value + ", 'sad')"
}

// codeIn is the SQLSTATE in what whole tells of an error.
func codeIn(told string) string { return strings.Join(strings.SplitN(told+"||", "|", 4)[1:2], "") }

// sameOfEnum reports whether Sluice's answer is PostgreSQL's, but for a value that is none of the
// type's: it has another code, and is looked at where it is stored or cast only, and not where it is
// compared, is a default, or is for no row.
func sameOfEnum(sql string, answers, errs [2]string) bool {
	switch {
	case errs[0] == errs[1] && (answers[0] == answers[1] || errs[1] != ""):
		return true
	case codeIn(errs[1]) != "22P02":
		return false
	case codeIn(errs[0]) == "23514", codeIn(errs[0]) == "42601": // of two errors PostgreSQL tells the other
		return true
	}
	looked := strings.HasPrefix(sql, "INSERT") && !strings.Contains(sql, "DEFAULT") || strings.HasPrefix(sql, "SELECT") && !strings.Contains(sql, "FROM person")
	return errs[0] == "" && !looked && answers[0] != "" && !strings.HasPrefix(answers[0], "UPDATE 1")
}

// Random statements answer what they do in PostgreSQL, and rows read as they do there, where a domain
// stands for an enumeration and what is in a DO block is carried out.
func TestEnumerationsAsInPostgreSQL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_CREATE_ENUM": "domain"}, domainChanges)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed ", seed)
	e := &enumerated{random: rand.New(rand.NewPCG(seed, 0))}
	told, warned, made := map[string]int{}, 0, 0
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec} {
		var conns [2]*pgx.Conn
		for i, dsn := range []string{sluice.DSN("postgres"), pg.DSN("plain")} {
			config, err := pgx.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			config.DefaultQueryExecMode = mode
			config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
				if i == 0 && strings.Contains(n.Message, "is a domain over text") {
					warned++
				}
			}
			if conns[i], err = pgx.ConnectConfig(ctx, config); err != nil {
				t.Fatal(err)
			}
			defer conns[i].Close(ctx)
		}
		var program []string
		run := func(sql string) {
			program = append(program, sql)
			var answers, errs [2]string
			for i, conn := range conns {
				rows, err := conn.Query(ctx, sql)
				for err == nil && rows.Next() {
					values := rows.RawValues()
					answers[i] += fmt.Sprintf("%q ", values)
				}
				if err == nil {
					rows.Close()
					err = rows.Err()
				}
				answers[i] += rows.CommandTag().String()
				errs[i] = whole(err)
			}
			if strings.HasPrefix(answers[1], "CREATE TYPE") && errs[1] == "" {
				made++
			}
			told[codeIn(errs[1])]++
			if answers[0] == "CREATE TABLE" && errs[1] != "" {
				pg.SQL(t, "postgres", "DROP TABLE person")
			}
			if !sameOfEnum(sql, answers, errs) {
				t.Fatalf("%s:\n got %s %s\nwant %s %s\n%s", mode, answers[0], errs[0], answers[1], errs[1], strings.Join(program, ";\n"))
			}
		}
		for range 50 {
			switch e.random.IntN(8) {
			case 0:
				for _, sql := range []string{"BEGIN", e.create(), e.pick("COMMIT", "ROLLBACK")} {
					run(sql)
				}
			case 1:
				for _, sql := range []string{"BEGIN READ ONLY", e.pick(e.create(), "DROP TYPE mood"), "ROLLBACK"} {
					run(sql)
				}
			default:
				run(e.statement())
			}
			if len(program) > 40 {
				program = slices.Delete(program, 0, 10)
			}
		}
		for _, database := range []string{"postgres", "plain"} {
			pg.SQL(t, database, `DROP TABLE IF EXISTS person, pet`)
		}
		pg.SQL(t, "postgres", `DROP DOMAIN IF EXISTS mood, "Odd ""type"`)
		pg.SQL(t, "plain", `DROP TYPE IF EXISTS mood, "Odd ""type"`)
	}
	if t.Log(told, made, warned); made == 0 || warned < made || told[""] < 30 || told["42710"] == 0 || told["22P02"] == 0 {
		t.Errorf("told %v, %d types, %d warnings", told, made, warned)
	}
}

// An enumeration that is made in a transaction which meets a conflict is made by the replay, and its
// client is warned once.
func TestEnumerationIsRunAgain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, sim, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_CREATE_ENUM": "domain"})
	for i, program := range [][]string{{"BEGIN", "CREATE TYPE mood AS ENUM ('b', 'a')", "COMMIT"}, {"CREATE TYPE mood AS ENUM ('b', 'a')"},
		{"BEGIN; CREATE TYPE mood AS ENUM ('b', 'a'); COMMIT"}} {
		config, err := pgx.ParseConfig(sluice.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		warned := 0
		config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
			if strings.Contains(n.Message, "is a domain over text") {
				warned++
			}
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		sim.Admin(t, http.MethodPost, "/faults", `[{"at": "commit", "action": "fail", "error": "conflict"}]`)
		for _, sql := range program {
			if tag, err := conn.Exec(ctx, sql); err != nil || strings.HasPrefix(sql, "CREATE") && tag.String() != "CREATE TYPE" {
				t.Fatalf("%v: %s: %q %v", program, sql, tag, err)
			}
		}
		sim.Admin(t, http.MethodDelete, "/faults", "")
		if got := pg.SQL(t, "postgres", "SELECT count(*) FROM pg_type WHERE typname = 'mood' AND typtype = 'd'"); got != "1" || warned != 1 {
			t.Errorf("%d: %s types, %d warnings", i, got, warned)
		}
		pg.SQL(t, "postgres", "DROP DOMAIN mood")
	}
}

// What a client chooses for itself holds for enumerations too, columns of one are told as text, and a DO
// block that is carried out leaves its session unpinned, and stands alone in its pipeline.
func TestEnumerationsAreChosen(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, _, sluice := plainAndSluice(t, harness.Env{"DSQL_CLIENT_MAY_SET": "ddl.create_enum"})
	conn := dialled(t, sluice, pgx.QueryExecModeExec)
	expect := func(sql, code string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); codeIn(whole(err)) != code {
			t.Errorf("%s: %v, want %q", sql, err, code)
		}
	}
	expect("CREATE TYPE mood AS ENUM ('sad', 'ok')", "0A000")
	expect("SET sluice.ddl.create_enum = 'domain'", "")
	expect("DO $$ BEGIN CREATE TYPE mood AS ENUM ('sad', 'ok'); EXCEPTION WHEN duplicate_object THEN NULL; END $$", "")
	if text, err := sluice.Metrics(ctx); err != nil || !strings.Contains(text, "\ndsql_clients_pinned 0\n") {
		t.Errorf("a client is pinned: %v", err)
	}
	expect("CREATE TABLE person (id int PRIMARY KEY, now mood)", "")
	rows, err := conn.Query(ctx, "SELECT now FROM person")
	if err != nil {
		t.Fatal(err)
	}
	if oid := rows.FieldDescriptions()[0].DataTypeOID; oid != 25 {
		t.Errorf("the column is told as %d", oid)
	}
	rows.Close()
	batch := &pgx.Batch{}
	batch.Queue("DO $$ BEGIN CREATE TYPE other AS ENUM ('a'); END $$")
	batch.Queue("SELECT 1")
	if err := conn.SendBatch(ctx, batch).Close(); !strings.Contains(whole(err), "DO cannot be carried out together with other statements") {
		t.Errorf("in a pipeline: %v", err)
	}
	expect("SELECT 'a'::other", "42704")
	expect("RESET sluice.ddl.create_enum", "")
	expect("DROP TYPE mood", "0A000")
}
