package rewriting

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var choicesPrograms = flag.Int("choices.programs", 12, "random programs of three clients each that TestChoices plays")

// choiceKeys are the keys that the clients choose, with their values.
var choiceKeys = map[string][]string{
	"ddl.in_transactions":    {"refuse", "autocommit", "autocommit-destructive"},
	"ddl.add_column_default": {"refuse", "backfill"},
	"ddl.set_not_null":       {"refuse", "check"},
	"ddl.carry_out":          {"exact", "all"},
}

// carried are what ddl.carry_out at all means.
var carried = map[string]string{"ddl.in_transactions": "autocommit-destructive", "ddl.add_column_default": "backfill", "ddl.set_not_null": "check"}

// migratorHas are the values of the user migrator on the Sluice that all share.
var migratorHas = map[string]string{"ddl.set_not_null": "check", "ddl.in_transactions": "autocommit"}

// choicesRig is one Sluice whose clients choose, and one for each combination of values, which has
// them in its configuration.
type choicesRig struct {
	*partsRig
	t     *testing.T
	fixed map[string]*harness.Sluice
}

func startChoices(t *testing.T, env harness.Env) *choicesRig {
	r := &partsRig{pg: pgtest.Start(t, pgtest.MaxConnections(200))}
	bin := harness.Binaries(t)
	r.sim = harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: r.pg})
	c := &choicesRig{partsRig: r, t: t, fixed: map[string]*harness.Sluice{}}
	users := ""
	for _, key := range slices.Sorted(maps.Keys(migratorHas)) {
		users += ",migrator:" + key + "=" + migratorHas[key]
	}
	r.sluice = c.start(harness.Env{"DSQL_CLIENT_MAY_SET": "ddl.in_transactions,ddl.add_column_default,ddl.set_not_null,ddl.carry_out", "DSQL_CLIENT_USERS": users[1:]}.With(env))
	return c
}

func (r *choicesRig) start(env harness.Env) *harness.Sluice {
	r.t.Helper()
	return harness.StartSluice(r.t, harness.SluiceConfig{Bin: harness.Binaries(r.t), Env: r.sim.Env().With(
		harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "4", "DSQL_RESERVOIR_ENABLED": "false"}).With(env)})
}

// by is the Sluice that has those values in its configuration.
func (r *choicesRig) by(values map[string]string) *harness.Sluice {
	r.t.Helper()
	env, name := harness.Env{}, ""
	for _, key := range slices.Sorted(maps.Keys(carried)) {
		env["DSQL_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))] = values[key]
		name += values[key] + " "
	}
	if r.fixed[name] == nil {
		r.fixed[name] = r.start(env)
	}
	return r.fixed[name]
}

// chooser is what a client should have, as its settings promise it.
type chooser struct {
	user, startup  map[string]string
	session, local map[string]string
	before         map[string]string // the session's in front of the block
}

func (c *chooser) value(key string) string {
	return cmp.Or(c.local[key], c.session[key], c.user[key])
}

// effective are the values by which statements are carried out.
func (c *chooser) effective() map[string]string {
	out := map[string]string{}
	for key, all := range carried {
		out[key] = c.value(key)
		if out[key] == "" {
			out[key] = "refuse"
			if c.value("ddl.carry_out") == "all" {
				out[key] = all
			}
		}
	}
	return out
}

// choosing is one client of the shared Sluice, with its twins at the others.
type choosing struct {
	rig      *choicesRig
	rng      *rand.Rand
	schema   string // its own; that of the twins is twin_ of it
	model    chooser
	c        *pgconn.PgConn
	notices  []string
	twins    map[*harness.Sluice]*twin
	twin     *twin // of the block that is open and has run something
	block    bool
	prepared map[string]string // names by texts
	script   []string
}

type twin struct {
	c       *pgconn.PgConn
	notices []string
}

// connect dials a Sluice with startup options.
func (r *choicesRig) connect(ctx context.Context, s *harness.Sluice, user, schema string, startup map[string]string, notices *[]string) (*pgconn.PgConn, error) {
	options := "-c search_path=" + schema
	for key, value := range startup {
		options += " -c sluice." + key + "=" + value
	}
	dsn, _ := url.Parse(s.DSN("postgres"))
	dsn.User = url.User(user)
	config, err := pgconn.ParseConfig(dsn.String())
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["options"] = options
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.Code != "00000" || !strings.Contains(n.Message, " for this client: ") {
			*notices = append(*notices, strings.Join([]string{n.Severity, n.Code, n.Message, n.Detail, n.Hint}, "|"))
		}
	}
	return pgconn.ConnectConfig(ctx, config)
}

// open connects, as a user and with a startup that are drawn.
func (c *choosing) open(ctx context.Context) error {
	user := "admin"
	c.model = chooser{user: map[string]string{}, startup: map[string]string{}, local: map[string]string{}}
	if c.rng.IntN(3) == 0 {
		user, c.model.user = "migrator", migratorHas
	}
	for range c.rng.IntN(3) {
		key, value := c.draw()
		c.model.startup[key] = value
	}
	c.model.session = maps.Clone(c.model.startup)
	c.prepared = map[string]string{}
	c.script = append(c.script, fmt.Sprintf("connect as %s with %v", user, c.model.startup))
	var err error
	c.c, err = c.rig.connect(ctx, c.rig.sluice, user, c.schema, c.model.startup, &c.notices)
	return err
}

// draw is a key and one of its values.
func (c *choosing) draw() (key, value string) {
	keys := slices.Sorted(maps.Keys(choiceKeys))
	key = keys[c.rng.IntN(len(keys))]
	return key, choiceKeys[key][c.rng.IntN(len(choiceKeys[key]))]
}

// tellAll are the rows, tags, errors and notices of a request, and where the transaction stands.
func tellAll(ctx context.Context, c *pgconn.PgConn, notices *[]string, ask func() ([]*pgconn.Result, error)) []string {
	*notices = nil
	results, err := ask()
	var out []string
	for _, r := range results {
		for _, row := range r.Rows {
			out = append(out, fmt.Sprintf("row %q", row))
		}
		if err = cmp.Or(err, r.Err); r.Err == nil {
			out = append(out, r.CommandTag.String())
		}
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		out = append(out, strings.Join([]string{"error", e.Code, e.Message, e.Detail, e.Hint}, "|"))
	} else if err != nil {
		out = append(out, err.Error())
	}
	return append(append(out, *notices...), string(c.TxStatus()))
}

// ask sends a text: simple, by the extended protocol, or as a statement that was prepared.
func ask(ctx context.Context, c *pgconn.PgConn, notices *[]string, sql, way, name string) []string {
	return tellAll(ctx, c, notices, func() ([]*pgconn.Result, error) {
		switch way {
		case "extended":
			return []*pgconn.Result{c.ExecParams(ctx, sql, nil, nil, nil, nil).Read()}, nil
		case "prepare":
			_, err := c.Prepare(ctx, name, sql, nil)
			return nil, err
		case "prepared":
			return []*pgconn.Result{c.ExecPrepared(ctx, name, nil, nil, nil).Read()}, nil
		}
		return c.Exec(ctx, sql).ReadAll()
	})
}

// other is the twin that has the values which are in force in its configuration.
func (c *choosing) other(ctx context.Context) (*twin, error) {
	s := c.rig.by(c.model.effective())
	if c.twins[s] == nil {
		t := &twin{}
		var err error
		if t.c, err = c.rig.connect(ctx, s, "admin", "twin_"+c.schema, nil, &t.notices); err != nil {
			return nil, err
		}
		c.twins[s] = t
	}
	return c.twins[s], nil
}

var choicesTexts = []string{
	"ALTER TABLE t ADD COLUMN d int DEFAULT 7", "ALTER TABLE t ADD COLUMN e text DEFAULT 'x' NOT NULL", "ALTER TABLE t DROP COLUMN d", "ALTER TABLE t DROP COLUMN e",
	"ALTER TABLE t ALTER COLUMN v SET NOT NULL", "ALTER TABLE t ALTER COLUMN v DROP NOT NULL", "ALTER TABLE t ADD COLUMN f int NOT NULL",
	"CREATE TABLE u (id int PRIMARY KEY)", "CREATE TABLE w (id int PRIMARY KEY)", "DROP TABLE u", "DROP TABLE w", "INSERT INTO t VALUES (3, 4)", "DELETE FROM t WHERE id = 3",
	"UPDATE t SET v = v + 1", "SELECT count(*) FROM t", "SELECT 1", "CREATE TABLE u (id int); INSERT INTO t VALUES (5, 5); CREATE TABLE w (id int)", "INSERT INTO t VALUES (6, 6); DROP TABLE u",
}

// step does one thing, and returns what differs from what was promised; "" for nothing.
func (c *choosing) step(ctx context.Context) string {
	n := c.rng.IntN(20)
	switch {
	case !c.block && n == 0:
		c.c.Close(ctx)
		if err := c.open(ctx); err != nil {
			return err.Error()
		}
		return ""
	case !c.block && n < 5:
		c.script = append(c.script, "BEGIN")
		if got := ask(ctx, c.c, &c.notices, "BEGIN", "simple", ""); !slices.Equal(got, []string{"BEGIN", "T"}) {
			return fmt.Sprintf("BEGIN: %q", got)
		}
		c.block, c.twin, c.model.before = true, nil, maps.Clone(c.model.session)
		return ""
	case n < 10 && (!c.block || c.twin == nil):
		return c.choose(ctx)
	case c.block && n == 10 && c.twin != nil:
		return c.late(ctx)
	case n == 11:
		key, _ := c.draw()
		want := cmp.Or(c.model.effective()[key], c.model.value(key), "exact")
		if got := ask(ctx, c.c, &c.notices, "SHOW sluice."+key, "simple", ""); c.c.TxStatus() != 'E' && got[0] != fmt.Sprintf("row [%q]", want) {
			return fmt.Sprintf("%s is %q, want %s", key, got, want)
		}
		return ""
	case c.block && n > 15:
		return c.finish(ctx, []string{"COMMIT", "ROLLBACK"}[c.rng.IntN(2)])
	}
	return c.statement(ctx)
}

// choose changes what is chosen, where no statement has run in the block.
func (c *choosing) choose(ctx context.Context) string {
	key, value := c.draw()
	m, sql := &c.model, ""
	want := []string{"SET"}
	switch n := c.rng.IntN(8); {
	case n < 4:
		sql = fmt.Sprintf("SET sluice.%s = '%s'", key, value)
		m.session[key] = value
		delete(m.local, key)
	case n == 4:
		sql = fmt.Sprintf("SET LOCAL sluice.%s TO '%s'", key, value)
		if c.block {
			m.local[key] = value
		} else {
			want = append(want, "WARNING|25P01|SET LOCAL can only be used in transaction blocks||")
		}
	case n == 5:
		sql = "RESET sluice." + key
		want = []string{"RESET"}
		m.reset(key)
	case n == 6:
		sql = "SET sluice." + key + " TO DEFAULT"
		m.reset(key)
	case c.block:
		return ""
	default:
		sql = []string{"RESET ALL", "DISCARD ALL"}[c.rng.IntN(2)]
		if want = []string{"RESET"}; sql == "DISCARD ALL" {
			want, c.prepared = []string{sql}, map[string]string{}
		}
		m.session = maps.Clone(m.startup)
	}
	way := []string{"simple", "extended"}[c.rng.IntN(2)]
	c.script = append(c.script, way+" "+sql)
	if got := ask(ctx, c.c, &c.notices, sql, way, ""); !slices.Equal(got, append(want, string(c.c.TxStatus()))) {
		return fmt.Sprintf("%s: %q, want %q", sql, got, want)
	}
	return ""
}

func (m *chooser) reset(key string) {
	delete(m.local, key)
	delete(m.session, key)
	if v, ok := m.startup[key]; ok {
		m.session[key] = v
	}
}

// late has a block that has run something be committed otherwise, which is refused.
func (c *choosing) late(ctx context.Context) string {
	was := c.model.effective()["ddl.in_transactions"]
	value := choiceKeys["ddl.in_transactions"][c.rng.IntN(3)]
	if value == was || c.c.TxStatus() != 'T' {
		return ""
	}
	sql := fmt.Sprintf("SET sluice.ddl.in_transactions = '%s'", value)
	c.script = append(c.script, sql)
	got := ask(ctx, c.c, &c.notices, sql, "simple", "")
	if len(got) != 2 || !strings.HasPrefix(got[0], "error|25001|") {
		return fmt.Sprintf("%s: %q, want 25001", sql, got)
	}
	ask(ctx, c.twin.c, &c.twin.notices, "SELECT 1/0", "simple", "")
	return ""
}

// begins has the twin of a block begin it, where that has not run anything.
func (c *choosing) begins(ctx context.Context) (*twin, error) {
	if c.twin != nil {
		return c.twin, nil
	}
	t, err := c.other(ctx)
	if err == nil && c.block {
		c.twin = t
		err = t.c.Exec(ctx, "BEGIN").Close()
	}
	return t, err
}

// finish ends the block, and with it what was chosen in it.
func (c *choosing) finish(ctx context.Context, sql string) string {
	t, err := c.begins(ctx)
	if err != nil {
		return err.Error()
	}
	failed := c.c.TxStatus() == 'E'
	c.script = append(c.script, sql)
	got, want := ask(ctx, c.c, &c.notices, sql, "simple", ""), ask(ctx, t.c, &t.notices, sql, "simple", "")
	committed := strings.Contains(strings.Join(got, ""), "was committed before stays") // what was chosen too
	m := &c.model
	m.local, c.block, c.twin = map[string]string{}, false, nil
	if (sql == "ROLLBACK" || failed || want[0] == "ROLLBACK") && !committed {
		m.session = m.before
	} else if got := ask(ctx, c.c, &c.notices, "SHOW sluice.ddl.carry_out", "simple", ""); len(got) != 3 {
		return fmt.Sprintf("SHOW: %q", got)
	}
	return c.differs(sql, got, want)
}

// statement runs a text on both sides.
func (c *choosing) statement(ctx context.Context) string {
	t, err := c.begins(ctx)
	if err != nil {
		return err.Error()
	}
	sql := choicesTexts[c.rng.IntN(len(choicesTexts))]
	way := []string{"simple", "simple", "extended", "prepared"}[c.rng.IntN(4)]
	if strings.Contains(sql, "; ") {
		way = "simple"
	}
	name := c.prepared[sql]
	if way == "prepared" && name == "" {
		name = fmt.Sprintf("s%d", len(c.script))
		c.script = append(c.script, "prepare "+sql)
		got, want := ask(ctx, c.c, &c.notices, sql, "prepare", name), ask(ctx, t.c, &t.notices, sql, "prepare", "")
		if difference := c.differs("prepare "+sql, got, want); difference != "" || strings.HasPrefix(got[0], "error") {
			return difference
		}
		c.prepared[sql] = name
	}
	c.script = append(c.script, way+" "+sql)
	got := ask(ctx, c.c, &c.notices, sql, way, name)
	if way == "prepared" {
		way = "extended"
	}
	return c.differs(sql, got, ask(ctx, t.c, &t.notices, sql, way, ""))
}

// ownSets are choices in the list of what a block has committed, which twins do not make.
var (
	ownSets  = regexp.MustCompile(ownSet + `; `)
	onlySets = regexp.MustCompile(`^WARNING.*\|Committed: ` + ownSet + `(; ` + ownSet + `)*\.\|`)
)

const ownSet = `(?:RE)?SET (?:LOCAL )?sluice\.[a-z_.]+(?: = \.\.\.| TO \.\.\.| TO DEFAULT)?`

// differs compares the answers of the two.
func (c *choosing) differs(sql string, got, want []string) string {
	got = slices.DeleteFunc(got, func(line string) bool { return onlySets.MatchString(line) })
	if g, w := ownSets.ReplaceAllString(strings.Join(got, "\n"), ""), strings.ReplaceAll(strings.Join(want, "\n"), "twin_"+c.schema, c.schema); g != w {
		return fmt.Sprintf("%s, under %v\ngot:  %s\nwant: %s", sql, c.model.effective(), g, w)
	}
	return ""
}

// Clients that share a Sluice and have chosen differently are each answered, and leave, what a Sluice
// answers that has their choice in its configuration: by user, by the startup, by SET, SET LOCAL,
// RESET, DISCARD ALL, through COMMIT and ROLLBACK, and for statements that were prepared before.
func TestChoices(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]harness.Env{"plain": nil, "kept backend": {"DSQL_PAIRING": "session"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startChoices(t, env)
			for seed := range *choicesPrograms {
				if difference := r.playChoices(t, uint64(seed)); difference != "" {
					t.Fatal(difference)
				}
			}
		})
	}
}

// playChoices plays a program of three clients, a step of each at a time. In every other program
// they share a schema, and with it what is remembered of texts: then a client in a block goes on alone.
func (r *choicesRig) playChoices(t *testing.T, seed uint64) string {
	ctx := t.Context()
	var clients []*choosing
	alone := seed%2 == 0
	for n := range 3 {
		c := &choosing{rig: r, rng: rand.New(rand.NewPCG(seed, uint64(n))), schema: "own", twins: map[*harness.Sluice]*twin{}}
		if alone {
			c.schema += fmt.Sprint(n)
		}
		for _, schema := range []string{c.schema, "twin_" + c.schema} {
			r.pg.SQL(t, "postgres", fmt.Sprintf("DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %[1]s; CREATE TABLE %[1]s.t (id int PRIMARY KEY, v int); INSERT INTO %[1]s.t VALUES (1, 1), (2, 2)", schema))
		}
		if err := c.open(ctx); err != nil {
			return err.Error()
		}
		clients = append(clients, c)
		defer func() {
			c.c.Close(ctx)
			for _, t := range c.twins {
				t.c.Close(ctx)
			}
		}()
	}
	for range 40 {
		for n, c := range clients {
			if !alone && !c.block && slices.ContainsFunc(clients, func(o *choosing) bool { return o.block }) {
				continue
			}
			if difference := c.step(ctx); difference != "" {
				return fmt.Sprintf("seed %d, client %d: %s\nbehind\n  %s", seed, n, difference, strings.Join(c.script, "\n  "))
			}
		}
	}
	for n, c := range clients {
		if c.block {
			if difference := c.finish(ctx, "ROLLBACK"); difference != "" {
				return fmt.Sprintf("seed %d, client %d: %s\nbehind\n  %s", seed, n, difference, strings.Join(c.script, "\n  "))
			}
		}
		got, want := r.pg.SQL(t, "postgres", fmt.Sprintf(contents, c.schema)), r.pg.SQL(t, "postgres", fmt.Sprintf(contents, "twin_"+c.schema))
		if want = strings.ReplaceAll(want, "twin_"+c.schema, c.schema); got != want {
			return fmt.Sprintf("seed %d, client %d leaves\n%s\nits twin\n%s\nbehind\n  %s", seed, n, got, want, strings.Join(c.script, "\n  "))
		}
	}
	return ""
}
