package dialect

import (
	"strings"
	"testing"
)

func TestKindsAndVerbs(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]Statement{
		"select 1":                              {Kind: Other, Verb: "SELECT"},
		"Insert into t values (1)":              {Kind: DML, Verb: "INSERT"},
		"begin":                                 {Kind: Begin, Verb: "BEGIN"},
		"START TRANSACTION":                     {Kind: Begin, Verb: "START"},
		"end;":                                  {Kind: Commit, Verb: "END"},
		"COMMIT WORK":                           {Kind: Commit, Verb: "COMMIT"},
		"abort":                                 {Kind: Rollback, Verb: "ABORT"},
		"grant select on t to u":                {Kind: DDL, Verb: "GRANT"},
		"create index async on t (a)":           {Kind: DDL, Verb: "CREATE"},
		"-- hint\n/* a /* b */ */SHOW timezone": {Kind: Other, Verb: "SHOW"},
	} {
		text := New(Options{}).Analyze(sql)
		if len(text.Statements) != 1 {
			t.Errorf("%s: %d statements", sql, len(text.Statements))
			continue
		}
		if got := text.Statements[0]; got.Kind != want.Kind || got.Verb != want.Verb {
			t.Errorf("%s: got %v %v, want %v %v", sql, got.Kind, got.Verb, want.Kind, want.Verb)
		}
	}
}

func TestSpellings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sql, want, tag string
		job            bool
	}{
		{"CREATE INDEX ASYNC i ON t (a)", "CREATE INDEX       i ON t (a)", "", true},
		{"create unique index /* x */ async ON t (a)", "create unique index /* x */       ON t (a)", "", true},
		{"ALTER TABLE ASYNC t VALIDATE CONSTRAINT c", "ALTER TABLE       t VALIDATE CONSTRAINT c", "", true},
		{"DROP INDEX async", "DROP INDEX async", "", false},
		{"SELECT async FROM t", "SELECT async FROM t", "", false},
		{"SHOW server_version", "SELECT '16.15' AS server_version", "SHOW", false},
		{"SHOW server_version_num", "SELECT '160015' AS server_version_num", "SHOW", false},
		{"SELECT version()", "SELECT text 'PostgreSQL 16' AS version", "", false},
		{"SELECT version ( ), pg_catalog.version() AS v", "SELECT text 'PostgreSQL 16' AS version, text 'PostgreSQL 16' AS v", "", false},
		{"SELECT 'version()'", "SELECT 'version()'", "", false},
		{"SET disable_sync_create_index TO off", "SET dsql.disable_sync_create_index TO off", "", false},
	} {
		text := New(Options{}).Analyze(c.sql)
		if len(text.Statements) != 1 || text.Statements[0].Refusal != nil {
			t.Errorf("%s: not accepted: %+v", c.sql, text)
			continue
		}
		got := text.Statements[0]
		if got.SQL != c.want || got.Tag != c.tag || got.Job != c.job {
			t.Errorf("%s:\n got %q %q job %v\nwant %q %q job %v", c.sql, got.SQL, got.Tag, got.Job, c.want, c.tag, c.job)
		}
		if strings.TrimSuffix(text.SQL, "\n;") != c.want {
			t.Errorf("%s: whole text %q", c.sql, text.SQL)
		}
	}
}

func TestSeveralStatements(t *testing.T) {
	t.Parallel()
	const sql = "SELECT 1; -- one\nSELECT ';'; CREATE INDEX ASYNC i ON t (a);; SELECT version()"
	text := New(Options{}).Analyze(sql)
	if len(text.Statements) != 4 {
		t.Fatalf("%d statements", len(text.Statements))
	}
	if !text.Statements[2].Job || text.Statements[1].Job || text.Statements[3].Job {
		t.Error("the job is not the third statement's alone")
	}
	if got := text.SQLBefore(2); strings.Count(got, "SELECT") != 2 || strings.Contains(got, "INDEX") {
		t.Errorf("before the index: %q", got)
	}
	if !strings.Contains(text.SQL, "text 'PostgreSQL 16' AS version") {
		t.Errorf("the last statement is not respelled: %q", text.SQL)
	}
}

func TestUnreadTexts(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"not SQL":          "SELEC 1",
		"qualified index":  "CREATE INDEX ASYNC public.i ON t (a)",
		"over the size":    "SELECT '" + strings.Repeat("x", maxTextBytes) + "' FOR UPDATE",
		"unclosed string":  "SELECT version() || 'x",
		"unclosed $$":      "SELECT version() || $$x",
		"unclosed comment": "SELECT version() /* x",
		"only a bracket":   ")",
		"a lone quote":     `"`,
	} {
		text := New(Options{}).Analyze(sql)
		if !text.Unread || len(text.Statements) != 0 {
			t.Errorf("%s: read as %+v", name, text.Statements)
		}
	}
}

func TestEmptyTexts(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"", ";", " ;; ", "-- ping", "/* ping */"} {
		if text := New(Options{}).Analyze(sql); text.Unread || len(text.Statements) != 0 || text.SQL != sql {
			t.Errorf("%q: %+v", sql, text)
		}
	}
}

// deepTexts are chains of every kind whose n-th member makes the parse tree deeper.
var deepTexts = map[string]func(n int) string{
	"operators": func(n int) string { return "SELECT version(), 1" + strings.Repeat("+1", n) },
	"signs":     func(n int) string { return "SELECT version(), " + strings.Repeat("- ", n) + "1" },
	"casts":     func(n int) string { return "SELECT version(), 1" + strings.Repeat("::int", n) },
	"parentheses": func(n int) string {
		return "SELECT version(), " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n)
	},
	"calls": func(n int) string {
		return "SELECT version(), " + strings.Repeat("f(1,", n) + "1" + strings.Repeat(")", n)
	},
	"not":         func(n int) string { return "SELECT version() WHERE " + strings.Repeat("NOT ", n) + "true" },
	"and":         func(n int) string { return "SELECT version() WHERE true" + strings.Repeat(" AND a(1, 2)", n) },
	"or":          func(n int) string { return "SELECT version() WHERE true" + strings.Repeat(" OR a(1, 2)", n) },
	"is null":     func(n int) string { return "SELECT version() WHERE 1" + strings.Repeat(" IS NULL", n) },
	"collate":     func(n int) string { return "SELECT version(), 'a'" + strings.Repeat(` COLLATE "C"`, n) },
	"time zone":   func(n int) string { return "SELECT version(), now()" + strings.Repeat(" AT TIME ZONE 'UTC'", n) },
	"joins":       func(n int) string { return "SELECT version() FROM t" + strings.Repeat(" JOIN t ON true", n) },
	"cross joins": func(n int) string { return "SELECT version() FROM t" + strings.Repeat(" CROSS JOIN t", n) },
	"union":       func(n int) string { return "SELECT version(), 2" + strings.Repeat(" UNION SELECT 1, 2", n) },
	"except":      func(n int) string { return "SELECT version(), 2" + strings.Repeat(" EXCEPT ALL VALUES (1, 2)", n) },
	"case": func(n int) string {
		return "SELECT version(), " + strings.Repeat("CASE WHEN true THEN ", n) + "1" + strings.Repeat(" END", n)
	},
	"subqueries": func(n int) string {
		return "SELECT version(), " + strings.Repeat("(SELECT 1, ", n) + "1" + strings.Repeat(")", n)
	},
	"with": func(n int) string {
		return "SELECT version() " + strings.Repeat("; WITH x AS (SELECT 1, (WITH y AS (SELECT 1) SELECT 2))", 1) + strings.Repeat("(", n)
	},
	"arrays": func(n int) string {
		return "SELECT version(), " + strings.Repeat("ARRAY[", n) + "1" + strings.Repeat("]", n)
	},
	"explain": func(n int) string { return "SELECT version(); " + strings.Repeat("EXPLAIN ", n) + "SELECT 1" },
}

func TestDeepTextsAreNotParsed(t *testing.T) {
	t.Parallel()
	for name, deep := range deepTexts {
		sql := deep(100_000)
		if !newOutline(sql).deep {
			t.Errorf("%s: the guard let it pass", name)
			continue
		}
		if text := New(Options{}).Analyze(sql); !text.Unread {
			t.Errorf("%s: was parsed", name)
		}
	}
}

// The deepest texts that pass the guard must not crash the parser.
func TestTextsAtTheGuardAreSafe(t *testing.T) {
	t.Parallel()
	for name, deep := range deepTexts {
		n := 1
		for step := 1 << 16; step > 0; step /= 2 {
			if !newOutline(deep(n + step)).deep {
				n += step
			}
		}
		if n < 50 {
			t.Errorf("%s: the guard stops at %d already", name, n)
		}
		New(Options{}).Analyze(deep(n))
	}
}

func TestFlatTextsPassTheGuard(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"values":     "INSERT INTO t VALUES (1, -2, 'x')" + strings.Repeat(", (1, -2, 'x')", 20_000),
		"in":         "SELECT 1 FROM t WHERE id IN (1" + strings.Repeat(", 1", 50_000) + ") FOR UPDATE",
		"statements": strings.Repeat("SELECT 1 + 1;", 20_000),
		"columns":    "SELECT 1" + strings.Repeat(", a.b + 1 AS c", 20_000),
	} {
		if newOutline(sql).deep {
			t.Errorf("%s: taken for deep", name)
		}
	}
}

func TestPlainTextsAreNotParsed(t *testing.T) {
	t.Parallel()
	d := New(Options{})
	for _, sql := range []string{
		"SELECT abalance FROM pgbench_accounts WHERE aid = 1;", "UPDATE t SET a = a + 1 WHERE id = 2",
		"INSERT INTO t (a) VALUES (1)", "DELETE FROM t", "BEGIN;", "END;",
	} {
		d.Analyze(sql)
	}
	if n := len(d.seen.texts); n != 0 {
		t.Errorf("%d of them were parsed", n)
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	d := New(Options{})
	for i := range 3 * maxCached {
		d.Analyze("SET application_name = '" + strings.Repeat("x", i%97) + string(rune('a'+i%26)) + strings.Repeat("y", i/97) + "'")
	}
	if n := len(d.seen.texts); n != maxCached {
		t.Errorf("%d texts kept, want %d", n, maxCached)
	}
}

func FuzzRead(f *testing.F) {
	for _, c := range refusals {
		f.Add(c.sql)
	}
	for _, deep := range deepTexts {
		f.Add(deep(3))
	}
	f.Add("SELECT $tag$ ' $tag$, E'\\'', U&'x', $1 -- c\n; SELECT version()")
	d := New(Options{})
	f.Fuzz(func(t *testing.T, sql string) {
		text := d.Analyze(sql)
		for i := range text.Statements {
			text.SQLBefore(i)
		}
	})
}

// Where there are jobs, they look at the rows.
func TestSpellingsForJobs(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"CREATE INDEX ASYNC i ON t (a)":                               "CREATE INDEX       i ON t (a)",
		"create unique index /* x */ async ON t (a) -- end":           "create        index /* x */       ON t (a) -- end\n/*dsqlsim unique*/",
		"CREATE UNIQUE INDEX ASYNC \"unique\" ON t (a)":               "CREATE        INDEX       \"unique\" ON t (a)\n/*dsqlsim unique*/",
		"ALTER TABLE ASYNC t VALIDATE CONSTRAINT \"c\"\"d\"":          "ALTER TABLE       t VALIDATE CONSTRAINT \"c\"\"d\"\n/*dsqlsim validates c\"d*/",
		"ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0) NOT VALID":      "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0) NOT VALID",
		"ALTER TABLE ASYNC t VALIDATE CONSTRAINT \"an end */ of it\"": "ALTER TABLE       t VALIDATE CONSTRAINT \"an end */ of it\"",
	} {
		text := New(Options{Jobs: func() bool { return true }}).Analyze(sql)
		if len(text.Statements) != 1 || text.Statements[0].SQL != want {
			t.Errorf("%s: %+v", sql, text.Statements)
		}
	}
}
