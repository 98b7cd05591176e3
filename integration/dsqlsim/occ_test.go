package dsqlsim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// player is one client of a story; it sends its statements in one of the
// protocol's ways.
type player struct {
	t      *testing.T
	conn   *pgconn.PgConn
	simple bool
}

// do runs a statement and returns its tag, or SQLSTATE and message.
func (p *player) do(sql string) string {
	p.t.Helper()
	if p.simple {
		results, err := p.conn.Exec(deadline(p.t), sql).ReadAll()
		if err != nil {
			return told(p.t, err)
		}
		return results[len(results)-1].CommandTag.String()
	}
	result := p.conn.ExecParams(deadline(p.t), sql, nil, nil, nil, nil).Read()
	if result.Err != nil {
		return told(p.t, result.Err)
	}
	return result.CommandTag.String()
}

func told(t *testing.T, err error) string {
	t.Helper()
	e := pgError(t, err)
	return e.Code + " " + e.Message
}

// conflict is how a loser is told.
const conflict = "40001 change conflicts with another transaction (OC000)"

// ways are the protocols that every story is told in.
var ways = map[string]bool{"simple": true, "extended": false}

// stage is a cluster with the tables of a story.
func stage(t *testing.T) *cluster {
	t.Helper()
	c := start(t, nil)
	c.setUp(t, "public")
	return c
}

// setUp makes the tables of a story in a schema of their own.
func (c *cluster) setUp(t *testing.T, schema string) {
	t.Helper()
	c.direct(t, `CREATE SCHEMA IF NOT EXISTS `+schema+`; SET search_path = `+schema+`;
		CREATE TABLE parent (id int PRIMARY KEY, name text NOT NULL);
		INSERT INTO parent SELECT g, 'p' FROM generate_series(1, 9) g;
		CREATE TABLE child (id int PRIMARY KEY, parent_id int REFERENCES parent);
		INSERT INTO child VALUES (1, NULL);
		CREATE TABLE other (id int PRIMARY KEY, v int);
		INSERT INTO other SELECT g, 0 FROM generate_series(1, 9) g;
		CREATE TABLE cascaded (id int PRIMARY KEY, parent_id int REFERENCES parent ON DELETE CASCADE, note text);
		INSERT INTO cascaded VALUES (1, 8, 'c');
		CREATE TABLE nulled (id int PRIMARY KEY, parent_id int REFERENCES parent ON DELETE SET NULL, note text);
		INSERT INTO nulled VALUES (1, 9, 'c')`)
}

// deeds are what a transaction may do to a row of parent, with the tag that each
// must be answered whatever others do.
var deeds = map[string][2]string{
	"read":      {"SELECT name FROM parent WHERE id = %[1]d", "SELECT 1"},
	"update":    {"UPDATE parent SET name = name || 'x' WHERE id = %[1]d", "UPDATE 1"},
	"rekey":     {"UPDATE parent SET id = -id WHERE id = %[1]d", "UPDATE 1"},
	"delete":    {"DELETE FROM parent WHERE id = %[1]d", "DELETE 1"},
	"lock":      {"SELECT name FROM parent WHERE id = %[1]d FOR UPDATE", "SELECT 1"},
	"key share": {"SELECT name FROM parent WHERE id = %[1]d FOR KEY SHARE", "SELECT 1"},
	"reference": {"INSERT INTO child VALUES (%[1]d, %[1]d)", "INSERT 0 1"},
}

// matrix says of each pair whether the second to commit fails, whichever that is.
var matrix = map[[2]string]bool{
	{"read", "read"}: false, {"read", "update"}: false, {"read", "delete"}: false, {"read", "lock"}: false,
	{"read", "key share"}: false, {"read", "reference"}: false,
	{"update", "update"}: true, {"update", "rekey"}: true, {"update", "delete"}: true, {"update", "lock"}: true,
	{"update", "key share"}: false, {"update", "reference"}: false,
	{"delete", "delete"}: true, {"delete", "rekey"}: true, {"delete", "lock"}: true, {"delete", "key share"}: true,
	{"delete", "reference"}: true,
	{"lock", "lock"}:        true, {"lock", "rekey"}: true,
	{"key share", "key share"}: false, {"key share", "rekey"}: true, {"key share", "reference"}: false,
}

// Two transactions are open at the same time, each does its deed, one after the
// other, and they commit in either order.
func TestConflictMatrix(t *testing.T) {
	t.Parallel()
	c := stage(t)
	c.direct(t, "INSERT INTO parent SELECT g, 'p' FROM generate_series(1001, 2000) g")
	row := 1000
	for way, simple := range ways {
		for pair, loses := range matrix {
			for order := range 4 {
				row++
				match := match{pair, row, order & 1, order >> 1, loses}
				t.Run(fmt.Sprintf("%s/%s,%s/%d acts,%d commits", way, pair[0], pair[1], match.acts, match.commits), func(t *testing.T) {
					t.Parallel()
					match.play(t, c, simple)
				})
			}
		}
	}
}

// match is one cell of the matrix: who acts first, and who commits first.
type match struct {
	pair          [2]string
	row           int
	acts, commits int
	loses         bool
}

func (m match) play(t *testing.T, c *cluster, simple bool) {
	players := []*player{{t, c.connect(t), simple}, {t, c.connect(t), simple}}
	for _, p := range players {
		p.do("BEGIN")
		p.do("SELECT 1 FROM other")
	}
	for _, i := range []int{m.acts, 1 - m.acts} {
		deed := deeds[m.pair[i]]
		if got := players[i].do(fmt.Sprintf(deed[0], m.row)); got != deed[1] {
			t.Errorf("%s: got %s, want %s", m.pair[i], got, deed[1])
		}
	}
	if got := players[m.commits].do("COMMIT"); got != "COMMIT" {
		t.Errorf("first COMMIT: %s", got)
	}
	want := "COMMIT"
	if m.loses {
		want = conflict
	}
	second := players[1-m.commits]
	if got := second.do("COMMIT"); got != want {
		t.Errorf("second COMMIT: got %s, want %s", got, want)
	}
	if status := second.conn.TxStatus(); status != 'I' {
		t.Errorf("status %c", status)
	}
	if got := second.do("SELECT 1"); got != "SELECT 1" {
		t.Errorf("afterwards: %s", got)
	}
}

// story is a sequence of statements of two or more clients and their answers.
type story []struct {
	who       int
	sql, want string
}

func (s story) tell(t *testing.T, c *cluster, schema string, simple bool) {
	t.Helper()
	config := c.config(t)
	config.RuntimeParams["search_path"] = schema
	players := make(map[int]*player)
	for _, line := range s {
		p := players[line.who]
		if p == nil {
			conn, err := pgconn.ConnectConfig(deadline(t), config)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(deadline(t))
			p = &player{t, conn, simple}
			players[line.who] = p
		}
		if got := p.do(line.sql); got != line.want {
			t.Errorf("%d: %s: got %s, want %s", line.who, line.sql, got, line.want)
		}
	}
}

const (
	update1 = "UPDATE other SET v = v + 1 WHERE id = 1"
	read1   = "SELECT v FROM other WHERE id = 1"
)

var stories = map[string]story{
	"the idle one loses to who commits first": {
		{1, "BEGIN", "BEGIN"}, {1, update1, "UPDATE 1"},
		{2, update1, "UPDATE 1"},
		{1, "COMMIT", conflict}, {1, "ROLLBACK", "ROLLBACK"}, {1, update1, "UPDATE 1"},
	},
	"nobody fails when the idle one rolls back": {
		{1, "BEGIN", "BEGIN"}, {1, update1, "UPDATE 1"},
		{2, "BEGIN", "BEGIN"}, {2, update1, "UPDATE 1"},
		{1, "ROLLBACK", "ROLLBACK"}, {2, "COMMIT", "COMMIT"},
	},
	"who was parked commits after the other's rollback": {
		{1, "BEGIN", "BEGIN"}, {1, update1, "UPDATE 1"},
		{2, "BEGIN", "BEGIN"}, {2, update1, "UPDATE 1"},
		{2, "ROLLBACK", "ROLLBACK"},
		{1, "UPDATE other SET v = v * 10 WHERE id = 1 AND v = 1", "UPDATE 1"}, // it sees its own first update
		{1, "COMMIT", "COMMIT"},
		{3, "DELETE FROM other WHERE id = 1 AND v = 10", "DELETE 1"},
	},
	"write skew commits on both sides": {
		{1, "BEGIN", "BEGIN"}, {2, "BEGIN", "BEGIN"},
		{1, "SELECT v FROM other", "SELECT 9"}, {2, "SELECT v FROM other", "SELECT 9"},
		{1, "UPDATE other SET v = 1 WHERE id = 1", "UPDATE 1"}, {2, "UPDATE other SET v = 1 WHERE id = 2", "UPDATE 1"},
		{1, "COMMIT", "COMMIT"}, {2, "COMMIT", "COMMIT"},
	},
	"a change since the snapshot shows at COMMIT, with true row counts before": {
		{1, "BEGIN", "BEGIN"}, {1, read1, "SELECT 1"},
		{2, "UPDATE other SET v = 5", "UPDATE 9"},
		{1, "UPDATE other SET v = 7 WHERE v = 0", "UPDATE 9"},
		{1, "DELETE FROM other WHERE id > 6", "DELETE 3"},
		{1, "UPDATE other SET v = 7 WHERE id = 3 RETURNING v", "UPDATE 1"},
		{1, "COMMIT", conflict},
	},
	"a deadlock is none": {
		{1, "BEGIN", "BEGIN"}, {2, "BEGIN", "BEGIN"},
		{1, update1, "UPDATE 1"}, {2, "UPDATE other SET v = 1 WHERE id = 2", "UPDATE 1"},
		{1, "UPDATE other SET v = 1 WHERE id = 2", "UPDATE 1"}, {2, update1, "UPDATE 1"},
		{2, "COMMIT", "COMMIT"}, {1, "COMMIT", conflict},
	},
	"one new key twice": {
		{1, "BEGIN", "BEGIN"}, {2, "BEGIN", "BEGIN"},
		{1, "INSERT INTO other VALUES (10, 1)", "INSERT 0 1"}, {2, "INSERT INTO other VALUES (10, 2)", "INSERT 0 1"},
		{1, "COMMIT", "COMMIT"}, {2, "COMMIT", conflict},
	},
	"a new key that another has taken since the snapshot": {
		{1, "BEGIN", "BEGIN"}, {1, read1, "SELECT 1"},
		{2, "INSERT INTO other VALUES (10, 1)", "INSERT 0 1"},
		{1, "INSERT INTO other VALUES (10, 2), (11, 2)", "INSERT 0 2"}, {1, read1, "SELECT 1"}, {1, "COMMIT", conflict},
	},
	"a key that was there": {
		{1, "BEGIN", "BEGIN"}, {1, update1, "UPDATE 1"},
		{1, "INSERT INTO other VALUES (1, 2)", `23505 duplicate key value violates unique constraint "other_pkey"`},
		{1, "COMMIT", "ROLLBACK"},
	},
	"its own key": {
		{1, "BEGIN", "BEGIN"}, {1, "INSERT INTO other VALUES (10, 2)", "INSERT 0 1"},
		{1, "INSERT INTO other VALUES (10, 2)", `23505 duplicate key value violates unique constraint "other_pkey"`},
		{1, "COMMIT", "ROLLBACK"},
	},
	"cascade against a write of the child": {
		{1, "BEGIN", "BEGIN"}, {2, "BEGIN", "BEGIN"},
		{1, "DELETE FROM parent WHERE id = 8", "DELETE 1"}, {2, "UPDATE cascaded SET note = 'x' WHERE id = 1", "UPDATE 1"},
		{2, "COMMIT", "COMMIT"}, {1, "COMMIT", conflict},
	},
	"set null against a write of the child": {
		{2, "BEGIN", "BEGIN"}, {1, "BEGIN", "BEGIN"},
		{2, "UPDATE nulled SET note = 'x' WHERE id = 1", "UPDATE 1"}, {1, "DELETE FROM parent WHERE id = 9", "DELETE 1"},
		{1, "COMMIT", "COMMIT"}, {2, "COMMIT", conflict},
	},
	"one job for two, none skipped": {
		{1, "BEGIN", "BEGIN"}, {2, "BEGIN", "BEGIN"},
		{1, "SELECT id FROM other ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED", "SELECT 1"},
		{1, "DELETE FROM other WHERE id = 1", "DELETE 1"},
		{2, "SELECT id FROM other WHERE id = 1 FOR UPDATE NOWAIT", "SELECT 1"},
		{3, "UPDATE other SET v = 1 WHERE id = 2", "UPDATE 1"}, // the next job is not named
		{1, "COMMIT", "COMMIT"}, {2, "COMMIT", conflict},
	},
	"only the rows of the table that is named": {
		{1, "BEGIN", "BEGIN"},
		{1, "SELECT 1 FROM parent p JOIN other o ON o.id = p.id WHERE p.id = 1 FOR UPDATE OF o", "SELECT 1"},
		{2, "UPDATE parent SET name = 'x' WHERE id = 1", "UPDATE 1"},
		{1, "COMMIT", "COMMIT"},
	},
	"the rows of every table otherwise": {
		{1, "BEGIN", "BEGIN"},
		{1, "SELECT 1 FROM parent p JOIN other o ON o.id = p.id WHERE p.id = 1 FOR UPDATE", "SELECT 1"},
		{2, "UPDATE parent SET name = 'x' WHERE id = 1", "UPDATE 1"},
		{1, "COMMIT", conflict},
	},
	"a row named and written is written once": {
		{1, "BEGIN", "BEGIN"}, {1, read1 + " FOR UPDATE", "SELECT 1"}, {1, update1, "UPDATE 1"}, {1, "COMMIT", "COMMIT"},
		{2, "DELETE FROM other WHERE id = 1 AND v = 1", "DELETE 1"},
	},
	"alone, a locking clause does nothing": {
		{1, read1 + " FOR UPDATE", "SELECT 1"}, {2, update1, "UPDATE 1"},
	},
	"a lock in a transaction that only reads": {
		{1, "BEGIN READ ONLY", "BEGIN"}, {1, read1, "SELECT 1"},
		{1, read1 + " FOR UPDATE", "25006 cannot execute SELECT FOR UPDATE in a read-only transaction"}, {1, "ROLLBACK", "ROLLBACK"},
	},
	"two equal keys in one statement are nobody else's": {
		{1, "BEGIN", "BEGIN"}, {1, update1, "UPDATE 1"},
		{1, "INSERT INTO other VALUES (50, 1), (50, 2)", `23505 duplicate key value violates unique constraint "other_pkey"`},
		{1, "ROLLBACK", "ROLLBACK"}, {2, update1, "UPDATE 1"},
	},
	"an error of its own ends a block as ever": {
		{1, "BEGIN", "BEGIN"}, {1, update1, "UPDATE 1"}, {1, "SELECT 1/0", "22012 division by zero"},
		{2, update1, "UPDATE 1"},
		{1, read1, "25P02 current transaction is aborted, commands ignored until end of transaction block"},
		{1, "COMMIT", "ROLLBACK"}, {1, update1, "UPDATE 1"},
	},
}

func TestStories(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	n := 0
	for name, told := range stories {
		for way, simple := range ways {
			n++
			schema := fmt.Sprintf("story%d", n)
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				c.setUp(t, schema)
				told.tell(t, c, schema, simple)
			})
		}
	}
}

// Stories that make tables of their own: each has a cluster for itself, where nobody else changes
// the schema.
func TestLoneStories(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]story{
		"a duplicate behind a generated key that was told": {
			{1, "CREATE TABLE own (id bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1) PRIMARY KEY, name text UNIQUE)", "CREATE TABLE"},
			{1, "INSERT INTO own (name) VALUES ('there')", "INSERT 0 1"},
			{1, "BEGIN", "BEGIN"}, {1, "INSERT INTO own (name) VALUES ('twice') RETURNING id", "INSERT 0 1"},
			{1, "INSERT INTO own (name) VALUES ('twice') RETURNING id", `23505 duplicate key value violates unique constraint "own_name_key"`}, {1, "COMMIT", "ROLLBACK"},
			{1, "BEGIN", "BEGIN"}, {1, "INSERT INTO own (name) VALUES ('other') RETURNING id", "INSERT 0 1"},
			{1, "INSERT INTO own (name) VALUES ('there') RETURNING id", `23505 duplicate key value violates unique constraint "own_name_key"`}, {1, "COMMIT", "ROLLBACK"},
			{1, "BEGIN", "BEGIN"}, {1, "DELETE FROM own WHERE name = 'there'", "DELETE 1"}, {1, "INSERT INTO own (name) VALUES ('there') RETURNING id", "INSERT 0 1"},
			{1, "INSERT INTO own (name) VALUES ('there') RETURNING id", `23505 duplicate key value violates unique constraint "own_name_key"`}, {1, "COMMIT", "ROLLBACK"},
			{1, "BEGIN", "BEGIN"}, {1, "SELECT count(*) FROM own", "SELECT 1"}, {2, "INSERT INTO own (name) VALUES ('hidden')", "INSERT 0 1"},
			{1, "INSERT INTO own (name) VALUES ('hidden') RETURNING id", conflict}, {1, "COMMIT", "ROLLBACK"},
			{1, "SELECT name FROM own", "SELECT 2"},
		},
		"a key that is violated at COMMIT": {
			{1, "CREATE TABLE late (id int, UNIQUE (id) DEFERRABLE INITIALLY DEFERRED)", "CREATE TABLE"},
			{1, "CREATE TABLE dependent (id int, parent int, FOREIGN KEY (parent) REFERENCES other DEFERRABLE INITIALLY DEFERRED)", "CREATE TABLE"},
			{1, "BEGIN", "BEGIN"}, {1, "INSERT INTO late VALUES (1)", "INSERT 0 1"}, {1, "INSERT INTO late VALUES (1)", "INSERT 0 1"},
			{1, "COMMIT", `23505 duplicate key value violates unique constraint "late_id_key"`},
			{1, "BEGIN", "BEGIN"}, {1, "INSERT INTO dependent VALUES (1, 77)", "INSERT 0 1"},
			{1, "COMMIT", `23503 insert or update on table "dependent" violates foreign key constraint "dependent_parent_fkey"`},
			{1, "SELECT 1 FROM dependent", "SELECT 0"},
		},
		"rows that go with their parent, in one transaction": {
			{1, "CREATE TABLE going (id int PRIMARY KEY, parent int REFERENCES other ON DELETE CASCADE)", "CREATE TABLE"},
			{1, "BEGIN", "BEGIN"}, {1, "INSERT INTO other VALUES (30, 1)", "INSERT 0 1"}, {1, "INSERT INTO going VALUES (1, 30)", "INSERT 0 1"},
			{1, "DELETE FROM other WHERE id = 30", "DELETE 1"}, {1, "COMMIT", "COMMIT"},
			{1, "BEGIN", "BEGIN"}, {1, "INSERT INTO other VALUES (30, 1)", "INSERT 0 1"}, {1, "INSERT INTO going VALUES (1, 30)", "INSERT 0 1"},
			{1, "SELECT id FROM other WHERE id = 30 FOR UPDATE", "SELECT 1"},
			{1, "DELETE FROM other WHERE id = 30", "DELETE 1"}, {1, "COMMIT", "COMMIT"},
		},
	} {
		for way, simple := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				told.tell(t, stage(t), "public", simple)
			})
		}
	}
}

const outdated = "40001 schema has been updated by another transaction (OC001)"

func TestSchemaConflicts(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]story{
		"idle": {
			{1, read1, "SELECT 1"}, {2, "CREATE TABLE x (id int)", "CREATE TABLE"},
			{1, read1, outdated}, {1, read1, "SELECT 1"}, {2, read1, "SELECT 1"}, {3, read1, "SELECT 1"},
		},
		"at the first statement of a block": {
			{1, read1, "SELECT 1"}, {2, "ALTER TABLE other ADD COLUMN w int", "ALTER TABLE"},
			{1, "BEGIN", "BEGIN"}, {1, update1, outdated}, {1, "COMMIT", "ROLLBACK"}, {1, update1, "UPDATE 1"},
		},
		"in the middle of a block, which waits for nobody": {
			{1, "BEGIN", "BEGIN"}, {1, update1, "UPDATE 1"},
			{2, "ALTER TABLE other ADD COLUMN w int", "ALTER TABLE"},
			{1, read1, "SELECT 1"}, {1, "COMMIT", outdated}, {1, update1, "UPDATE 1"},
		},
		"of a reader": {
			{1, "BEGIN READ ONLY", "BEGIN"}, {1, read1, "SELECT 1"},
			{2, "BEGIN", "BEGIN"}, {2, "DROP TABLE other", "DROP TABLE"}, {1, "SELECT 1", "SELECT 1"}, {2, "COMMIT", "COMMIT"},
			{1, "COMMIT", outdated},
		},
		"after GRANT": {
			{1, read1, "SELECT 1"}, {2, "GRANT SELECT ON other TO public", "GRANT"}, {1, "SHOW timezone", "SHOW"}, {1, read1, outdated},
		},
		"of DDL itself": {
			{1, read1, "SELECT 1"}, {2, "CREATE TABLE x (id int)", "CREATE TABLE"},
			{1, "CREATE TABLE y (id int)", outdated}, {1, "CREATE TABLE y (id int)", "CREATE TABLE"},
		},
		"of a table whose rows the block has named": {
			{1, "BEGIN", "BEGIN"}, {1, "SELECT * FROM other FOR UPDATE", "SELECT 9"}, {1, "ALTER TABLE other ADD COLUMN w int", "ALTER TABLE"}, {1, "COMMIT", "COMMIT"},
		},
		"not of what was rolled back": {
			{1, read1, "SELECT 1"}, {2, "BEGIN", "BEGIN"}, {2, "CREATE TABLE x (id int)", "CREATE TABLE"}, {2, "ROLLBACK", "ROLLBACK"},
			{1, read1, "SELECT 1"},
		},
	} {
		for way, simple := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				told.tell(t, stage(t), "public", simple)
			})
		}
	}
	t.Run("switched off", func(t *testing.T) {
		t.Parallel()
		c := start(t, func(config *dsqlsim.Config) { config.SchemaConflicts = false })
		story{
			{1, "SELECT 1", "SELECT 1"}, {2, "CREATE TABLE x (id int)", "CREATE TABLE"}, {1, "SELECT 1 FROM x", "SELECT 0"},
		}.tell(t, c, "public", true)
	})
}

func TestKeyConflictsSwitchedOff(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.KeyConflicts = false })
	c.setUp(t, "public")
	story{
		{1, "BEGIN", "BEGIN"}, {1, read1, "SELECT 1"}, {2, "INSERT INTO other VALUES (10, 1)", "INSERT 0 1"},
		{1, "INSERT INTO other VALUES (10, 2)", `23505 duplicate key value violates unique constraint "other_pkey"`},
		{1, "COMMIT", "ROLLBACK"},
	}.tell(t, c, "public", true)
}

// A doomed transaction is not shown less than it wrote, nor the next snapshot behind one that was ended.
func TestToldAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.ReportsConflictEarly = true })
	c.setUp(t, "public")
	story{
		{1, "BEGIN", "BEGIN"}, {1, "SELECT 1", "SELECT 1"}, {2, update1, "UPDATE 1"}, {1, update1, "UPDATE 1"},
		{1, "UPDATE other SET v = 3 WHERE id = 2", "UPDATE 1"}, {1, "SELECT 2", "SELECT 1"}, {1, read1, conflict}, {1, "COMMIT", "ROLLBACK"},
		{1, "BEGIN", "BEGIN"}, {1, read1, "SELECT 1"}, {2, "ALTER TABLE other ADD COLUMN w int", "ALTER TABLE"}, {1, "SELECT 1", conflict},
	}.tell(t, c, "public", true)
}

// A conflict in the middle of a string, or of a pipeline, leaves the rest to run.
func TestConflictsInBatches(t *testing.T) {
	t.Parallel()
	block := []string{"BEGIN", "UPDATE other SET v = 3 WHERE id = 2", update1, "SELECT count(*) FROM other", "UPDATE other SET v = 4 WHERE id = 3", "COMMIT"}
	for name, send := range map[string]func(w *wire) []string{
		"string": func(w *wire) []string { return w.ask(1, simple(strings.Join(block, "; "))) },
		"group":  func(w *wire) []string { return w.ask(1, group(block...)...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := stage(t)
			idle := &player{t, c.connect(t), true}
			idle.do("BEGIN")
			idle.do(update1)
			got := strings.Join(send(c.raw(t)), ",")
			got = strings.NewReplacer("1,2,", "", "T count,", "").Replace(got)
			if want := "BEGIN,UPDATE 1,UPDATE 1,D 9,SELECT 1,UPDATE 1,COMMIT,Z I"; got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
			if got := idle.do("COMMIT"); got != conflict {
				t.Errorf("the idle one: %s", got)
			}
		})
	}
}
