package rewrite

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
)

// doesByFields is the value of Does that a statement's other fields show. The order is that of strength: the
// first feature that a statement has decides.
func doesByFields(st *Statement) LocalWork {
	discards := slices.ContainsFunc(st.Changes, func(c SettingChange) bool { return c.Action == DiscardAll })
	for _, of := range []struct {
		so   bool
		does LocalWork
	}{
		{st.Tag == "LOCK TABLE", ChecksTables},
		{st.Advisory != nil, Locks},
		{st.Tag == "CLOSE CURSOR ALL", ClosesAll},
		{st.Tag == "DISCARD SEQUENCES", DiscardsSequences},
		{st.Tag != "" && st.Column != "", AnswersVoid},
		{st.Tag != "", Answers},
		{st.Database != nil, ChangesDatabase},
		{st.Cursor != nil, UsesCursor},
		{st.CopyIn != nil, CopiesIn},
		{st.Steps != nil, Alters},
		{st.Show != "" && st.Column != "", ShowsInQuery},
		{st.Show != "", Shows},
		{st.SetConfigParams() > 0, BindsConfig},
		{len(st.SetConfigColumns) > 1, SetsRow},
		{len(st.SetConfigColumns) == 1, SetsConfig},
		{discards, DiscardsAll},
		{st.Deallocate != "", Deallocates},
		{st.Kind == Setting && st.Operation == "deallocate", DeallocatesAll},
		{st.Kind == Setting, Sets},
		{st.Executes != "", Executes},
		{st.Tx.Verb == Begin, Begins},
		{st.Tx.Verb == SetTransaction, SetsModes},
		{st.Tx.Verb == Savepoint || st.Tx.Verb == ReleaseSavepoint || st.Tx.Verb == RollbackTo, Saves},
		{st.Kind == Control, Ends},
	} {
		if of.so {
			return of.does
		}
	}
	return ServerOnly
}

// doesTexts are one text or more of each value of Does, under all the rules of TestDoes.
var doesTexts = []string{
	"SELECT 1", "EXECUTE sluice_1", "LOCK TABLE t IN ACCESS SHARE MODE", "UNLISTEN *", "SELECT pg_advisory_unlock_all()",
	"CLOSE ALL", "DISCARD SEQUENCES", "SELECT pg_advisory_lock(1)", "CREATE DATABASE app", "DROP DATABASE app", "CREATE DATABASE app TEMPLATE t",
	"ALTER TABLE t ADD COLUMN a int DEFAULT 1", "DECLARE c CURSOR FOR SELECT 1", "FETCH 1 FROM c", "MOVE 1 FROM c", "CLOSE c", "COPY t FROM STDIN",
	"SHOW a", "SELECT current_setting('a.b')", "SET a TO 1", "RESET a", "RESET ALL", "DISCARD PLANS", "DISCARD ALL", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
	"SELECT set_config('a.b', '1', false)", "SELECT set_config('a.b', '1', false), set_config('a.c', '1', true)", "SELECT set_config('a.b', $1, false)",
	"SELECT set_config('role', 'none', false)", "SELECT set_config('a.b', '1', false), 1", "SET ROLE none", "SET a FROM CURRENT", "SET LOCAL a TO 1",
	"DEALLOCATE a", "DEALLOCATE ALL", "BEGIN", "BEGIN ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION READ ONLY", "SET TRANSACTION READ ONLY",
	"SET TRANSACTION SNAPSHOT 'a'", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "SAVEPOINT a", "RELEASE a", "ROLLBACK TO a", "COMMIT", "ROLLBACK AND CHAIN",
	"PREPARE TRANSACTION 'a'", "COMMIT PREPARED 'a'", "EXECUTE sluice_1(current_setting('a.b'))", "ALTER TABLE t ADD COLUMN a text DEFAULT current_setting('a.b')",
	"BEGIN; SET a TO 1; SHOW a; DEALLOCATE ALL; COMMIT", "EXPLAIN EXECUTE sluice_1",
}

// TestDoes holds that the value of each statement is the one that its other fields show, and that each value
// is that of a statement here.
func TestDoes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.sql")
	if err != nil || len(files) < 5 {
		t.Fatalf("golden files: %v, %v", files, err)
	}
	texts := append(slices.Clone(doesTexts), sqltexts.ReadCorpus(t, "testdata/corpus/postgres.txt")...)
	for _, file := range files {
		for _, c := range sqltexts.ReadGolden(t, file) {
			texts = append(texts, c.In)
		}
	}
	seen := [LocalWorkCount]int{}
	for name, change := range map[string]func(*Rules){
		"no rules": func(r *Rules) { *r = Rules{} },
		"named":    func(r *Rules) { *r = Rules{Named: true} },
		"rules":    func(*Rules) {},
		"all": func(r *Rules) {
			r.NotNullCheck, r.Retype, r.CopyIn, r.Advisory, r.Enums, r.Backfill, r.InTransactions = true, true, true, true, true, true, CommitDDL
			r.SchemaOf = func(database string) (string, bool) { return database, strings.HasPrefix(database, "app") }
			r.Weaken = true
		},
	} {
		config := Defaults()
		change(&config.Rules)
		p, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range texts {
			plan := p.Plan([]byte(sql))
			for i := range plan.Statements {
				st := &plan.Statements[i]
				seen[st.Does]++
				if want := doesByFields(st); st.Does != want {
					t.Errorf("%s: %s: does %d, the fields say %d: %+v", name, sql, st.Does, want, st)
				}
			}
		}
	}
	for does, n := range seen {
		if n == 0 {
			t.Errorf("no statement has the value %d", does)
		}
	}
}
