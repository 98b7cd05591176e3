package dialogues

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// drawer draws one dialogue.
type drawer struct {
	route
	*rand.Rand
	marker  int // of the last row: each INSERT writes another
	themes  []theme
	classes map[string]int // what occurs

	who   string
	state map[string]*drawn
}

// drawn is what the drawer knows of a client.
type drawn struct {
	block    bool
	prepared map[string]string // statements by name
}

// theme is a class of statements: a dialogue speaks of a few.
type theme struct {
	name  string
	texts func(*drawer) string
	// Not on DSQL, which has no such thing, or is asked about it elsewhere.
	postgresOnly bool
	dsqlOnly     bool
	replaysOnly  bool
	partsOnly    bool
	weight       int
}

// draw draws dialogue n of a seed.
func draw(seed uint64, n int, r route) (dialogue, map[string]int) {
	g := &drawer{route: r, Rand: rand.New(rand.NewPCG(seed, uint64(n))), classes: map[string]int{}, state: map[string]*drawn{}}
	g.chooseThemes()
	d := dialogue{}
	if r.dsql && g.one(2) {
		d.fault = g.fault()
	}
	clients := []string{"a", "b", "c"}[:2+g.IntN(2)]
	for _, who := range clients {
		d.steps = append(d.steps, g.connect(who))
	}
	g.who = clients[0]
	for range 4 + g.IntN(14) {
		if g.IntN(5) < 2 {
			g.who = clients[g.IntN(len(clients))]
		}
		if g.one(5) {
			steps, fault := g.scene(clients)
			if d.steps = append(d.steps, steps...); fault != "" {
				d.fault = fault
			}
		}
		d.steps = append(d.steps, g.leaving(g.step())...)
	}
	d.steps = append(d.steps, epilogue(clients)...)
	d.unlimit(r.dsql)
	d.endBehindResets()
	return plantQuestions(d, seed, n, r, g.classes), g.classes
}

// resetting is a text whose function or block returns a setting to what the session has by itself.
var resetting = regexp.MustCompile(`(q_[abc]\(|DO ).*(RESET|TO DEFAULT|NULL, (true|false)\))`)

// endBehindResets has requests end behind a RESET inside of a function: until then the startup's value is not in force,
// as docs/compatibility.md has it.
func (d dialogue) endBehindResets() {
	texts, bound := map[string]string{}, map[string]string{} // by client and name of the statement, of the portal
	for i := range d.steps {
		s := &d.steps[i]
		var frames []frame
		for _, f := range s.frames {
			switch f.verb {
			case 'P':
				texts[s.who+f.name] = f.sql()
			case 'B':
				bound[s.who+f.name] = texts[s.who+f.from]
			case 'E':
				if frames = append(frames, f); resetting.MatchString(bound[s.who+f.name]) {
					frames = append(frames, frame{verb: 'S'})
				}
				continue
			case 'Q':
				for k := range len(f.parts) - 1 {
					if resetting.MatchString(f.parts[k]) {
						head := f
						head.parts = f.parts[:k+1]
						frames = append(frames, head)
						f.parts = f.parts[k+1:]
						break
					}
				}
			}
			frames = append(frames, f)
		}
		s.frames = frames
	}
}

// unlimit takes the row limit off statements that write, in front of a Bind in the same
// pipeline of a statement that was prepared before it: docs/compatibility.md has them. On the
// stand-in a Query shows what they have written too: it sets a savepoint first.
func (d dialogue) unlimit(dsql bool) {
	all := map[string]*pipeline{}
	for _, s := range d.steps {
		p := all[s.who]
		if p == nil || s.op == "connect" {
			p = &pipeline{texts: map[string]string{}, bound: map[string]string{}, here: map[string]bool{}}
			all[s.who] = p
		}
		for i := range s.frames {
			switch f := &s.frames[i]; f.verb {
			case 'P':
				p.texts[f.name], p.here[f.name] = f.sql(), true
			case 'B':
				p.bound[f.name] = p.texts[f.from]
				if !p.here[f.from] {
					p.unlimit()
				}
			case 'E':
				if f.rows > 0 && writing.MatchString(p.bound[f.name]) {
					p.limited = append(p.limited, f)
					clear(p.here)
				}
			case 'S', 'Q':
				if f.verb == 'Q' && dsql {
					p.unlimit()
				}
				p.limited = nil
				clear(p.here)
			}
		}
	}
}

// pipeline is what unlimit knows of the frames since the last Sync.
type pipeline struct {
	texts, bound map[string]string // by the name of the statement, of the portal
	here         map[string]bool   // prepared in this pipeline, behind what writes
	limited      []*frame
}

func (p *pipeline) unlimit() {
	for _, e := range p.limited {
		e.rows = 0
	}
}

var writing = regexp.MustCompile(`INSERT|UPDATE|DELETE|\b[fk]_[abc]\b`)

// leaving has the client of a step go behind it, now and then, and another come.
func (g *drawer) leaving(s step) []step {
	if !g.themed("leaving") || s.op != "frames" || s.cancel != noCancel || !g.one(5) {
		return []step{s}
	}
	how := pick(g, "half", "quit", "vanish")
	// Whether frames are run that nothing ends is not the same: see docs/compatibility.md.
	if how == "half" && strings.IndexByte("PBDEC", s.frames[len(s.frames)-1].verb) >= 0 {
		how = "quit"
	}
	g.count("left by " + how)
	if how == "half" {
		s.half = true
		return []step{s, g.connect(s.who)}
	}
	return []step{s, {who: s.who, op: how, cancel: noCancel}, g.connect(s.who)}
}

// epilogue ends all transactions, then all clients, and looks at what is left.
func epilogue(clients []string) (steps []step) {
	add := func(who, text string) {
		d, err := parseDialogue(who + " " + text)
		if err != nil {
			panic(err)
		}
		steps = append(steps, d.steps...)
	}
	for _, who := range clients {
		add(who, "[S]") // by itself: what it tells is where a direct client is brought
		add(who, "[Q ROLLBACK]")
		add(who, "[Q "+lookMacro+"]")
		add(who, "end")
	}
	for _, who := range []string{"y", "z"} {
		add(who, "connect")
		add(who, "[Q BEGIN] [Q "+lookMacro+"]")
	}
	for _, who := range []string{"y", "z"} {
		add(who, "[Q ROLLBACK]")
		add(who, "[Q SELECT lastval()]")
		add(who, "end")
	}
	return steps
}

// look shows what a session has, or another has left it.
const look = `SELECT current_setting('DateStyle'), current_setting('TimeZone'), current_setting('IntervalStyle'), ` +
	`current_setting('search_path'), current_setting('client_encoding'), current_setting('extra_float_digits'), ` +
	`current_setting('enable_seqscan'), current_user, ` +
	`(SELECT count(*) FROM pg_depend WHERE refclassid = 'pg_namespace'::regclass AND refobjid = pg_my_temp_schema()), (SELECT count(*) FROM pg_listening_channels()), ` +
	`(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), ` +
	`(SELECT count(*) FROM pg_prepared_statements WHERE name IN ('p1', 'p2'))`

func (g *drawer) one(in int) bool { return g.IntN(in) == 0 }

func (g *drawer) count(class string) { g.classes[class]++ }

func pick[T any](g *drawer, of ...T) T { return of[g.IntN(len(of))] }

func (g *drawer) chooseThemes() {
	var all []theme
	for _, t := range themes {
		if g.dsql && t.postgresOnly || !g.dsql && t.dsqlOnly || !g.replays && t.replaysOnly || !g.parts && t.partsOnly || t.name == "savepoints" && !g.savepoints {
			continue
		}
		for range t.weight {
			all = append(all, t)
		}
	}
	for range 1 + g.IntN(3) {
		t := pick(g, all...)
		g.themes = append(g.themes, t)
		g.count("theme " + t.name)
	}
	if g.parts && !g.themed(partsTheme) {
		g.themes = append(g.themes, themes[slices.IndexFunc(themes, func(t theme) bool { return t.partsOnly })])
	}
}

func (g *drawer) connect(who string) step {
	g.state[who] = &drawn{prepared: map[string]string{}}
	s := step{who: who, op: "connect", cancel: noCancel}
	var given []string
	for range max(0, g.IntN(4)-1) {
		name, value := g.setting()
		if name == "application_name" || !slices.ContainsFunc(given, func(o string) bool { return strings.HasPrefix(o, name+"=") }) {
			given = append(given, name+"="+strings.Trim(value, "'"))
		}
	}
	for i, o := range given {
		if strings.Contains(o, "$user',") {
			given[i] = "search_path=s1, public"
		}
		if strings.HasSuffix(o, "DEFAULT") || strings.HasSuffix(o, "LOCAL") || strings.Contains(o, "interval") || strings.Contains(o, ";") {
			given[i] = "TimeZone=Asia/Tokyo"
		}
	}
	if g.one(8) {
		given = append(given, "application_name=app")
	}
	if g.themed("left behind") && g.one(3) {
		given = append(given, "my.place=one")
	}
	if g.themed("startups") && g.one(2) {
		all := wrong
		if !g.dsql {
			all = append(slices.Clone(wrong), wrongOfPostgres...)
		}
		given = []string{pick(g, all...)} // which of two a server refuses first is its own choice
		g.count("odd startup")
	}
	if len(given) > 0 {
		g.count("startup options")
	}
	s.arg = strings.Join(given, ";")
	return s
}

// step draws what one client does next.
func (g *drawer) step() step {
	s := step{who: g.who, op: "frames", cancel: noCancel}
	switch n := g.IntN(100); {
	case n < 4:
		return g.connect(g.who)
	case n < 8 && g.themed("behind the back"):
		fallthrough
	case n < 20 && g.themed("behind the back"):
		return g.outsider()
	case n < 55:
		s.frames = []frame{{verb: 'Q', parts: []string{g.simple()}}}
	case n < 70:
		s.frames = []frame{{verb: 'Q', parts: g.script()}}
		g.count("string of several")
	default:
		s.frames = g.group()
	}
	for _, f := range s.frames {
		for _, text := range f.parts {
			if strings.Contains(text, "pg_sleep") && s.cancel == noCancel && g.one(2) {
				s.cancel = pick(g, 0, 1, 5, 20)
				g.count("cancel")
			}
		}
	}
	if g.themed("cancels") && s.cancel == noCancel && g.one(8) {
		s.cancel = 0
		g.count("cancel")
	}
	return s
}

func (g *drawer) themed(name string) bool {
	return slices.ContainsFunc(g.themes, func(t theme) bool { return t.name == name })
}

// script is a string of several statements.
func (g *drawer) script() []string {
	if g.themed("local") && g.one(3) {
		g.count("reset string")
		return strings.Split(pick(g, resets...), "; ")
	}
	var parts []string
	if g.themed("settings") && g.one(3) && !g.state[g.who].block {
		g.count("settings in front of a BEGIN")
		g.state[g.who].block = true
		return []string{pick(g, "SET TimeZone TO 'Asia/Tokyo'", "SET DateStyle TO 'SQL, DMY'", "SET TIME ZONE 'Europe/Berlin'", "RESET TimeZone", g.settingText()), "BEGIN"}
	}
	if g.one(4) { // a write behind the end of a block
		g.count("write behind an end")
		g.state[g.who].block = false
		parts = []string{pick(g, "ROLLBACK", "COMMIT", "ROLLBACK AND CHAIN"), strings.NewReplacer("{X}", g.who, "{N}", strconv.Itoa(g.marker)).Replace("INSERT INTO t_{X} (n) VALUES ({N})")}
		if g.dsql && !g.parts && parts[0] == "ROLLBACK AND CHAIN" {
			parts[0] = "ROLLBACK"
		}
		g.marker++
		return parts
	}
	for range 2 + g.IntN(3) {
		parts = append(parts, g.simple())
	}
	return parts
}

// resets are what drivers and pools send before they lend a connection again:
// asyncpg, psycopg, npgsql, pgjdbc, sqlx.
var resets = []string{
	"SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL",
	"CLOSE ALL; UNLISTEN *; RESET ALL",
	"DISCARD ALL",
	"ABORT; RESET ALL; SELECT 1 AS one",
	"CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD SEQUENCES; DISCARD TEMP",
	"DEALLOCATE ALL; RESET ALL",
}

// simple is a statement without a parameter.
func (g *drawer) simple() string {
	text := g.statement()
	return strings.ReplaceAll(text, "$1", strconv.Itoa(g.marker))
}

// group is what a client of the extended protocol sends in one write.
func (g *drawer) group() (frames []frame) {
	known := g.state[g.who].prepared
	for range 1 + g.IntN(3) {
		frames = append(frames, g.execution(known)...)
		switch g.IntN(12) {
		case 0:
			frames = append(frames, frame{verb: 'H'})
			g.count("flush")
		case 1:
			frames = append(frames, frame{verb: 'S'})
			g.count("several syncs")
		}
	}
	switch g.IntN(14) {
	case 0:
		g.count("no sync")
	case 1:
		g.count("flush")
		return append(frames, frame{verb: 'H'})
	case 2:
		g.count("query without sync")
		return append(frames, frame{verb: 'Q', parts: []string{g.simple()}}, frame{verb: 'S'})
	default:
		frames = append(frames, frame{verb: 'S'})
	}
	return frames
}

// execution runs one statement by the extended protocol.
func (g *drawer) execution(known map[string]string) (frames []frame) {
	name, text := "", ""
	names := slices.Sorted(func(yield func(string) bool) {
		for n := range known {
			if !yield(n) {
				return
			}
		}
	})
	if len(names) > 0 && g.one(2) {
		name = pick(g, names...)
		text = known[name]
		g.count("prepared before")
	} else {
		text = g.statement()
		if g.one(3) && !strings.Contains(text, "nosuch") {
			name = pick(g, "s1", "s2", "s3")
			if _, ok := known[name]; ok {
				frames = append(frames, frame{verb: 'C', kind: 'S', name: name})
			}
			known[name] = text
		}
		if name == "" && g.one(12) { // of which no server makes one
			behind := g.statement()
			if g.themed("savepoints") && g.one(2) {
				behind = pick(g, "SAVEPOINT a", "RELEASE b", "ROLLBACK TO a")
			}
			text += "; " + behind
			g.count("several prepared as one")
		}
		frames = append(frames, frame{verb: 'P', name: name, parts: []string{text}})
		if g.one(3) {
			frames = append(frames, frame{verb: 'D', kind: 'S', name: name})
		}
	}
	b := frame{verb: 'B', from: name}
	if strings.Contains(text, "$1") {
		g.marker++
		b.values = []string{strconv.Itoa(g.marker)}
	}
	e := frame{verb: 'E'}
	if g.one(6) {
		b.name, e.name = "c1", "c1"
		frames = append(frames, frame{verb: 'C', kind: 'P', name: "c1"})
	}
	if g.one(6) {
		e.rows = 1
	}
	frames = append(frames, b)
	if g.one(2) {
		frames = append(frames, frame{verb: 'D', kind: 'P', name: b.name})
	}
	return append(frames, e)
}

// statement is one statement of a theme, or of what all dialogues have.
func (g *drawer) statement() string {
	var text, class string
	switch n := g.IntN(10); {
	case n < 2:
		text, class = g.control(), "blocks"
	case n < 4:
		text, class = g.write(), "writes"
	case n < 5:
		text, class = g.plainRead(), "reads"
	default:
		t := pick(g, g.themes...)
		text, class = t.texts(g), t.name
	}
	g.count(class)
	g.marker++
	return strings.NewReplacer("{X}", g.who, "{N}", strconv.Itoa(g.marker)).Replace(text)
}

// control begins a block, or ends it.
func (g *drawer) control() string {
	st := g.state[g.who]
	if !st.block {
		st.block = true
		if g.dsql {
			return pick(g, "BEGIN", "BEGIN", "BEGIN", "START TRANSACTION", "BEGIN READ WRITE", "BEGIN READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ",
				"BEGIN /* sluice: no-retry */")
		}
		return pick(g, "BEGIN", "BEGIN", "BEGIN", "START TRANSACTION", "BEGIN READ WRITE", "BEGIN READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ",
			"BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN ISOLATION LEVEL READ COMMITTED")
	}
	if g.one(5) && (!g.dsql || g.parts) {
		g.count("and chain")
		return pick(g, "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "COMMIT AND NO CHAIN")
	}
	st.block = false
	return pick(g, "COMMIT", "COMMIT", "END", "ROLLBACK", "ROLLBACK", "ABORT")
}

func (g *drawer) write() string {
	return pick(g, "INSERT INTO t_{X} (n) VALUES ({N})", "INSERT INTO t_{X} (n) VALUES ({N})", "INSERT INTO t_{X} (n) VALUES ({N}) RETURNING n",
		"INSERT INTO t_{X} (n) VALUES ({N}), ({N}) RETURNING n", "INSERT INTO t_{X} (n) SELECT $1::int RETURNING n",
		"INSERT INTO t_{X} (n) VALUES ({N}) RETURNING id", "UPDATE t_{X} SET n = n + 1000 WHERE n < 1000", "DELETE FROM t_{X} WHERE n < 0",
		"WITH w AS (INSERT INTO t_{X} (n) VALUES ({N}) RETURNING n) SELECT n FROM w")
}

func (g *drawer) plainRead() string {
	return pick(g, "SELECT 1 AS one", "SELECT count(*) FROM t_{X}", "SELECT n FROM t_{X} ORDER BY n", "SELECT generate_series(1, 3) AS g",
		"SELECT count(*) FROM u_{X}", "SELECT $1::int AS p", "")
}

var themes = []theme{
	{name: "settings", weight: 5, texts: (*drawer).settingText},
	{name: "observers", weight: 3, texts: (*drawer).observer},
	{name: "halves", weight: 2, texts: func(g *drawer) string { // of a value that the server merges with what it has
		return pick(g, "SET DateStyle TO 'SQL'", "SET DateStyle TO DMY", "SET DateStyle TO 'SQL, DMY'", "SET DateStyle TO 'ISO'", "SET DateStyle TO MDY", "RESET DateStyle",
			"SHOW DateStyle", "SELECT '02/03/2026'::date", "SELECT '02/03/2026'::date", "SELECT date '2026-02-03'")
	}},
	{name: "ends", weight: 2, texts: (*drawer).write},
	{name: "forgotten", weight: 1, replaysOnly: true, postgresOnly: true, texts: (*drawer).write},
	{name: "leaving", weight: 1, texts: (*drawer).write},
	{name: "copy", weight: 1, postgresOnly: true, texts: (*drawer).write},
	{name: "memory", weight: 1, texts: (*drawer).write},
	{name: "pipelines", weight: 1, texts: (*drawer).plainRead},
	{name: "opt-out", weight: 1, dsqlOnly: true, texts: (*drawer).write},
	{name: "errors", weight: 2, texts: func(g *drawer) string {
		return pick(g, "SELECT nosuch", "SELECT 1/0", "SELEC 1", "INSERT INTO t_{X} (n) VALUES ({N}), (1/0)", "SELECT * FROM nosuch", "")
	}},
	{name: "savepoints", weight: 3, texts: func(g *drawer) string {
		return pick(g, "SAVEPOINT a", "SAVEPOINT a", "SAVEPOINT b", "ROLLBACK TO a", "ROLLBACK TO SAVEPOINT a", "ROLLBACK TO b", "RELEASE a", "RELEASE SAVEPOINT b")
	}},
	{name: "sequences", weight: 3, texts: func(g *drawer) string {
		return pick(g, "SELECT nextval('s_{X}')", "SELECT nextval('s_{X}')", "SELECT currval('s_{X}')", "SELECT lastval()", "INSERT INTO u_{X} (n) VALUES ({N}) RETURNING id",
			"INSERT INTO u_{X} (n) VALUES ({N})", "SELECT currval('u_{X}_id_seq')", "INSERT INTO t_{X} (n) VALUES ({N})", "SELECT lastval()")
	}},
	{name: "reads that write", weight: 2, texts: func(g *drawer) string {
		return pick(g, "SELECT wk FROM k_{X}", "SELECT k_{X}.wk FROM k_{X}", "SELECT f_{X}()", "SELECT n FROM t_{X} ORDER BY n", "SELECT max(wk) FROM k_{X}")
	}},
	{name: "behind the back", weight: 3, texts: func(g *drawer) string {
		return pick(g, "SELECT * FROM d1", "SELECT * FROM d1", "SELECT * FROM d2", "SELECT d FROM d2 d", "TABLE d1")
	}},
	{name: "ddl", weight: 1, postgresOnly: true, texts: func(g *drawer) string {
		return pick(g, "CREATE TABLE IF NOT EXISTS x_{X} (n int)", "DROP TABLE IF EXISTS x_{X}", "ALTER TABLE x_{X} ADD COLUMN IF NOT EXISTS m int DEFAULT 7",
			"ALTER TABLE x_{X} DROP COLUMN IF EXISTS m", "SELECT * FROM x_{X}", "SELECT * FROM x_{X}", "INSERT INTO x_{X} (n) VALUES (1)",
			"CREATE OR REPLACE VIEW y_{X} AS SELECT 1 AS n", "DROP VIEW IF EXISTS y_{X}")
	}},
	{name: partsTheme, weight: 9, partsOnly: true, texts: partsText},
	{name: "local", weight: 4, texts: (*drawer).localText},
	{name: "encodings", weight: 1, postgresOnly: true, texts: (*drawer).encodedText},
	{name: "set_config", weight: 1, postgresOnly: true, texts: func(g *drawer) string {
		return fmt.Sprintf(pick(g, "SELECT set_config('TimeZone', '%s', true)", "SELECT set_config('TimeZone', '%s', false)", "SELECT g_{X}('TimeZone', '%s')",
			"SELECT now() IS NOT NULL, set_config('TimeZone', '%s', true)"), pick(g, "Asia/Tokyo", "Europe/Berlin"))
	}},
	{name: "set_config as SET", weight: 2, texts: (*drawer).configText},
	{name: "modes and locks", weight: 2, dsqlOnly: true, texts: func(g *drawer) string {
		return pick(g, "SET TRANSACTION READ ONLY", "SET TRANSACTION READ WRITE", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
			"LOCK TABLE t_{X} IN ACCESS SHARE MODE", "LOCK TABLE t_{X}, s1.v IN ACCESS SHARE MODE", "SHOW transaction_read_only")
	}},
	{name: "pinned", weight: 1, postgresOnly: true, texts: func(g *drawer) string {
		return pick(g, "LISTEN l_{X}", "UNLISTEN *", "SELECT pg_advisory_lock(ascii('{X}'))", "SELECT pg_advisory_unlock_all()", "CREATE TEMP TABLE IF NOT EXISTS tmp (n int)",
			"PREPARE p1 AS SELECT 5 AS five", "EXECUTE p1", "DEALLOCATE p1", "SELECT * FROM tmp", "DISCARD ALL")
	}},
	{name: "left behind", weight: 2, postgresOnly: true, texts: (*drawer).leavingText},
	{name: "startups", weight: 2, texts: (*drawer).observer},
	{name: "cursors", weight: 1, postgresOnly: true, texts: func(g *drawer) string {
		return pick(g, "DECLARE k1 CURSOR FOR SELECT generate_series(1, 3) AS d", "FETCH 1 FROM k1", "CLOSE k1", "FETCH ALL FROM k1", "CLOSE ALL")
	}},
	{name: "cursors of Sluice's", weight: 1, dsqlOnly: true, texts: func(g *drawer) string {
		return pick(g, "DECLARE k1 NO SCROLL CURSOR FOR SELECT generate_series(1, 3) AS d", "DECLARE k1 CURSOR FOR SELECT n FROM t_{X} ORDER BY n",
			"FETCH 1 FROM k1", "FETCH 2 FROM k1", "MOVE 1 FROM k1", "CLOSE k1", "FETCH ALL FROM k1", "CLOSE ALL", "FETCH 0 FROM k1")
	}},
	{name: "cursors that are held", weight: 1, dsqlOnly: true, texts: func(g *drawer) string {
		return pick(g, "DECLARE k2 NO SCROLL CURSOR WITH HOLD FOR SELECT generate_series(1, 3) AS d", "DECLARE k2 NO SCROLL CURSOR WITH HOLD FOR SELECT n FROM t_{X} ORDER BY n",
			"DECLARE k3 NO SCROLL CURSOR WITH HOLD FOR VALUES (1), (2)", "FETCH 1 FROM k2", "FETCH 2 FROM k2", "MOVE 1 FROM k2", "CLOSE k2", "FETCH ALL FROM k3", "FETCH PRIOR FROM k2", "CLOSE ALL", "DISCARD ALL")
	}},
	{name: "isolation", weight: 1, postgresOnly: true, texts: func(g *drawer) string {
		return pick(g, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET transaction_isolation = 'serializable'", "SHOW transaction_isolation", "SHOW transaction_isolation",
			"SET default_transaction_isolation = 'repeatable read'", "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
			"SET TRANSACTION READ ONLY", "SET default_transaction_read_only = on", "SHOW default_transaction_isolation", "SELECT current_setting('transaction_isolation')")
	}},
	{name: "cancels", weight: 1, texts: func(g *drawer) string {
		return pick(g, "SELECT pg_sleep(0.35)", "INSERT INTO t_{X} (n) SELECT {N} FROM pg_sleep(0.35)", "SET statement_timeout = '120ms'", "RESET statement_timeout",
			"SELECT pg_sleep(0.35)")
	}},
}

// leavingText is a statement that may leave something at the backend, which its text does not tell.
func (g *drawer) leavingText() string {
	does := pick(g, "CREATE TEMP TABLE IF NOT EXISTS tmp (n int)", "CREATE TEMP TABLE IF NOT EXISTS tmp (n int)", "DROP TABLE IF EXISTS pg_temp.tmp", "PREPARE p2 AS SELECT 6 AS six", "DEALLOCATE p2",
		"LISTEN l_{X}", "UNLISTEN *", "SELECT pg_advisory_lock(ascii(''{X}''))", "SELECT pg_advisory_unlock_all()", "DECLARE k4 CURSOR WITH HOLD FOR SELECT generate_series(1, 3) AS d", "CLOSE ALL",
		"CREATE FUNCTION pg_temp.tmpf() RETURNS int LANGUAGE sql AS ''SELECT 1''", "CREATE TEMP SEQUENCE IF NOT EXISTS tmps",
		"RESET TimeZone", "SET DateStyle TO DEFAULT", "RESET search_path", "RESET ALL", "SET LOCAL TimeZone TO DEFAULT", "RESET extra_float_digits", "SET LOCAL search_path TO pg_temp",
		"SELECT set_config(''my.place'', NULL, false)", "SELECT set_config(''my.place'', NULL, true)", "SET ROLE other", "SET ROLE another", "RESET ROLE", "SET LOCAL ROLE other",
		"CREATE TEMP TABLE v ON COMMIT DROP AS SELECT 9 AS nine, true AS yes", "CREATE TEMP TABLE v AS SELECT 9 AS nine, true AS yes", "DROP TABLE IF EXISTS pg_temp.v")
	switch g.IntN(14) {
	case 7, 8: // what an own relation hides, and who asks
		return pick(g, "SELECT * FROM v", "SELECT * FROM v", "SELECT count(*) FROM v", "SELECT current_user", "SELECT COALESCE(current_setting('my.place', true), '')", "SET ROLE other", "RESET ROLE")
	case 0, 1:
		return pick(g, "SELECT * FROM tmp", "SELECT * FROM tmp_{X}", "SELECT count(*) FROM tmp_a", "FETCH 1 FROM k4", "EXECUTE p2", "SELECT count(*) FROM pg_temp.tmp")
	case 2:
		return pick(g, "SET LOCAL search_path TO pg_temp", "SET search_path TO pg_temp", "SET search_path TO pg_temp, public", "SELECT set_config('search_path', 'pg_temp', true)")
	case 3:
		return pick(g, "CREATE TABLE tmp_{X} (n int)", "CREATE TABLE tmp_{X} AS SELECT 7 AS n", "SELECT 8 AS n INTO tmp_{X}", "CREATE TABLE IF NOT EXISTS tmp_{X} (n int)")
	case 4:
		return g.observer()
	case 5:
		return "SELECT q_{X}('" + does + "'), 1/0"
	case 6:
		if strings.Contains(does, "LOCAL") || strings.Contains(does, "TEMP") && g.one(2) {
			return "SELECT q_{X}('" + does + "; CREATE TABLE tmp_{X} (n int)')"
		}
		return "DO 'BEGIN EXECUTE ''" + strings.ReplaceAll(does, "''", "''''") + "''; END'"
	}
	return "SELECT q_{X}('" + does + "')"
}

// wrong are startup parameters that a server refuses, and some that it only nearly refuses.
var wrong = []string{"TimeZone=Nope", "TimeZone=", "TimeZone=EST5EDT", "DateStyle=Nope", "DateStyle=Nope, DMY", "DateStyle=ISO, SQL", "DateStyle=", "DateStyle=SQL, DMY, MDY",
	"IntervalStyle=nope", "extra_float_digits=77", "extra_float_digits=x", "extra_float_digits= 3", "extra_float_digits=1.4", "search_path=s1 s2", "search_path=s1,,s2", `search_path="s1`, "search_path=nosuch",
	"statement_timeout=x", "statement_timeout=5 parsecs", "statement_timeout=90s", "application_name=", "DATESTYLE=SQL", "Extra_Float_Digits=1",
	"enable_seqscan=maybe", "enable_seqscan=of"}

// wrongOfPostgres are those of a server with all of PostgreSQL's settings.
var wrongOfPostgres = []string{"nosuchguc=1", "no.such=1", "client_encoding=KLINGON", "client_encoding=latin-1", "client_encoding=", "client_encoding=utf-8", "work_mem=1", "work_mem=64 kB", "work_mem=lots", "log_statement=nope", "bytea_output=nope",
	"default_transaction_isolation=nope", "search_path=pg_temp", "lock_timeout=-1", "is_superuser=on", "port=1", "shared_buffers=1GB", "lc_time=nope", "role=other", "role=nosuch", "temp_tablespaces=a b", "seed=1", "options=-c nosuch=1", "options=-c work_mem=1"}

// setting draws a setting and a value for it, as SQL has it.
func (g *drawer) setting() (name, value string) {
	all := [][]string{
		{"DateStyle", "'ISO'", "'SQL'", "'German'", "'SQL, DMY'", "DMY", "'MDY'", "'YMD'", "'Postgres, YMD'", "'ISO, DMY'", "iso", "DEFAULT"},
		{"DateStyle", "'ISO'", "'SQL'", "'SQL, DMY'", "'DMY'", "'MDY'", "'Postgres'", "'German, MDY'"},
		{"TimeZone", "'UTC'", "'Asia/Tokyo'", "'Europe/Berlin'", "DEFAULT", "'America/New_York'"},
		{"IntervalStyle", "'postgres'", "'sql_standard'", "'iso_8601'", "'postgres_verbose'", "DEFAULT"},
		{"search_path", "s1", "s2", "s2, public", "'$user', public", "public", "DEFAULT", `"$user", s1`},
		{"extra_float_digits", "0", "1", "3", "-5", "DEFAULT"},
		{"application_name", "'x'", "'y'", "''", "DEFAULT"},
		{"enable_seqscan", "off", "on", "DEFAULT"},
	}
	if !g.dsql {
		all = append(all, []string{"bytea_output", "'escape'", "'hex'", "DEFAULT"}, []string{"standard_conforming_strings", "on", "off", "DEFAULT"},
			[]string{"client_encoding", "'UTF8'", "'LATIN1'", "'SQL_ASCII'", "DEFAULT"}, []string{"default_transaction_read_only", "off", "DEFAULT"},
			[]string{"work_mem", "'64kB'", "'4MB'", "DEFAULT"})
	}
	s := pick(g, all...)
	return s[0], pick(g, s[1:]...)
}

func (g *drawer) settingText() string {
	name, value := g.setting()
	switch g.IntN(14) {
	case 0:
		return "RESET " + name
	case 1:
		return "RESET ALL"
	case 2, 3:
		return "SET LOCAL " + name + " TO " + value
	case 4:
		return pick(g, "SET TIME ZONE 'Asia/Tokyo'", "SET TIME ZONE LOCAL", "SET TIME ZONE DEFAULT", "SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE", "SET TIME ZONE -3", "SET LOCAL TIME ZONE 'Europe/Berlin'")
	case 5:
		return "SHOW " + name
	case 6:
		return pick(g, "SET NAMES 'UTF8'", "SET SCHEMA 's1'", "SET SESSION TimeZone TO 'Asia/Tokyo'", "SET client_encoding TO 'UTF8'")
	case 7, 8:
		return g.observer()
	}
	return "SET " + name + pick(g, " TO ", " = ") + value
}

// configText is set_config of constants, which changes what SET would.
func (g *drawer) configText() string {
	if g.one(4) {
		return g.observer()
	}
	one := func() string {
		all := [][]string{{"DateStyle", "ISO, DMY", "sql, mdy", "German, YMD", "nosuch"}, {"TimeZone", "Asia/Tokyo", "europe/berlin", "UTC"},
			{"IntervalStyle", "sql_standard", "POSTGRES", "nosuch"}, {"search_path", "s1", "s2, public", `"$user", s1`, "s1,,s2"},
			{"extra_float_digits", "0", "3", "77", "x"}, {"enable_seqscan", "off", "true", "1", "x"}, {"statement_timeout", "12345", "20s", "x"}, {"statement_timeout", "1min"}, {"lock_timeout", "7s"}}
		if g.dsql { // with PostgreSQL a function that sets what Sluice keeps sets the server's
			all = append(all, []string{"application_name", "x", "y"})
		}
		c := pick(g, all...)
		return fmt.Sprintf("%s('%s', '%s', %v)", pick(g, "set_config", "set_config", "pg_catalog.set_config", "SET_CONFIG"), c[0], pick(g, c[1:]...), g.one(2))
	}
	switch g.IntN(6) {
	case 0:
		return "SELECT " + one() + " AS told"
	case 1:
		if !g.dsql {
			return "SELECT " + one() + ", " + one()
		}
		return fmt.Sprintf("SELECT set_config('statement_timeout', '%ds', %v), set_config('application_name', 'z', %v) AS b", 10+g.IntN(9), g.one(2), g.one(2))
	}
	return "SELECT " + one()
}

// observer is a statement whose result depends on settings.
func (g *drawer) observer() string {
	return pick(g, "SELECT '02/03/2026'::date", "SELECT date '2026-02-03'", "SELECT interval '1 day 2 hours'", "SELECT timestamptz '2026-01-02 03:04:05+00'",
		"SELECT 0.1::float8 + 0.2", "SELECT x FROM v", "SELECT * FROM v", "SELECT current_setting('DateStyle')", "SELECT current_setting('search_path')",
		"SHOW TimeZone", "SHOW DateStyle", "SELECT current_setting('TimeZone')", "SELECT timestamp '2026-03-04 00:00'::timestamptz")
}

// localText is a statement that Sluice answers itself, or that drivers reset a session with.
func (g *drawer) localText() string {
	all := []string{"SET statement_timeout = '12345ms'", "SET statement_timeout = '1.5s'", "SET statement_timeout TO DEFAULT", "SHOW statement_timeout", "SET statement_timeout = 20000",
		"SET application_name = 'x'", "SHOW application_name", "SELECT current_setting('application_name')", "SET application_name TO DEFAULT",
		"DEALLOCATE s1", "DEALLOCATE ALL", "DISCARD ALL", "RESET ALL", "SELECT current_setting('statement_timeout')", "RESET statement_timeout",
		"SET lock_timeout = 0", "SET client_min_messages = warning", "SHOW client_min_messages", "SET idle_in_transaction_session_timeout = '1h'", "RESET application_name",
		"DISCARD PLANS", "DISCARD SEQUENCES", "DISCARD TEMP",
		"SELECT setting FROM pg_settings WHERE name = 'statement_timeout'", "SET LOCAL statement_timeout = '5s'", "SHOW lock_timeout", "SET standard_conforming_strings = on"}
	if !g.dsql {
		all = append(all, "CLOSE ALL", "UNLISTEN *", "SELECT pg_advisory_unlock_all()", "SET SESSION AUTHORIZATION DEFAULT")
	}
	return pick(g, all...)
}

// encodedText has bytes that mean something else in another encoding.
func (g *drawer) encodedText() string {
	return pick(g, "SET client_encoding TO 'SJIS'", "SET client_encoding TO 'BIG5'", "SET client_encoding TO 'GBK'", "SET client_encoding TO 'UTF8'", "SET client_encoding TO 'LATIN1'",
		"INSERT INTO w_{X} (s) VALUES ('\x83\x5c')", "SELECT s FROM w_{X}", "SELECT '\xc3\xa4'", "SELECT '\x83\x5c', '\x83\x5c'", "INSERT INTO w_{X} (s) VALUES ('\xc3\xa4') RETURNING s",
		"SELECT '\xe3\x5c'", "SELECT 'a\xe3\x81\x82'", "SHOW client_encoding", "SET standard_conforming_strings = off", `SELECT 'a\\b'`)
}

// outsider changes the schema in another session, or replaces all backends.
func (g *drawer) outsider() step {
	if g.one(3) {
		g.count("backends replaced")
		return step{who: "x", op: "replace", cancel: noCancel}
	}
	g.count("ddl elsewhere")
	return step{who: "x", op: "sql", cancel: noCancel, arg: pick(g, "ALTER TABLE d1 ADD COLUMN IF NOT EXISTS c int DEFAULT 3", "ALTER TABLE d1 DROP COLUMN IF EXISTS c",
		"ALTER TABLE d1 ALTER COLUMN b TYPE text", "ALTER TABLE d2 RENAME COLUMN b TO bb", "ALTER TABLE d2 ADD COLUMN IF NOT EXISTS c int", "DROP TABLE d2; CREATE TABLE d2 AS SELECT 1 AS a, 'two' AS b")}
}

// fault is what goes wrong at the stand-in, once.
func (g *drawer) fault() string {
	at := pick(g, "statement", "answered", "answered", "commit", "committing", "committed", "running")
	skip := g.IntN(9)
	if at == "commit" || at == "committing" || at == "committed" {
		skip = g.IntN(3)
	}
	action := `"action":"cut"`
	if (at == "statement" || at == "commit") && g.one(2) {
		action = `"action":"fail","error":"` + pick(g, "conflict", "schema") + `"`
		g.count("conflict at " + at)
	} else {
		g.count("cut at " + at)
	}
	return fmt.Sprintf(`[{"at":%q,%s,"skip":%d}]`, at, action, skip)
}
