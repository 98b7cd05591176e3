package settings

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/rewrite"
)

func TestTreatments(t *testing.T) {
	t.Parallel()
	ignore := []string{"lock_timeout", "standard_conforming_strings=on"}
	dsql := NewTreatments(true, false, ignore)
	pg := NewTreatments(false, true, ignore)
	for _, c := range []struct {
		in          Treatments
		name, value string
		want        Treatment
	}{
		{dsql, "timezone", "UTC", Carried}, {dsql, "statement_timeout", "5s", LocalOnly},
		{dsql, "application_name", "x", LocalOnly}, {dsql, "lock_timeout", "1s", Ignored},
		{dsql, "standard_conforming_strings", "on", Ignored}, {dsql, "standard_conforming_strings", "true", Ignored},
		{dsql, "standard_conforming_strings", "off", Foreign}, {dsql, "work_mem", "4MB", Foreign},
		{pg, "lock_timeout", "1s", Carried}, {pg, "application_name", "x", Carried}, {pg, "my.own", "x", Carried},
	} {
		if got := c.in.ForSet(c.name, c.value); got != c.want {
			t.Errorf("DSQL %v, %s = %s: %d, want %d", c.in.dsql, c.name, c.value, got, c.want)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	from := NewValues(map[string]string{"timezone": "'UTC'", "datestyle": "'ISO'", "gone": "1"})
	to := NewValues(map[string]string{"timezone": "'Asia/Tokyo'", "datestyle": "'ISO'", "my.Own": "'x'"})
	if got, want := DiffSQL(from, to), `RESET gone; SET my."Own" TO 'x'; SET timezone TO 'Asia/Tokyo'; `; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := DiffSQL(to, to); got != "" {
		t.Errorf("no difference gives %q", got)
	}
	if from.Parsing == to.Parsing || from.Parsing.All&1 != 0 {
		t.Error("TimeZone changes what a Parse means")
	}
}

// What a reset returns to is the startup's value, not the server's.
func TestSettingsWith(t *testing.T) {
	t.Parallel()
	base := NewValues(map[string]string{"a": "1"})
	s := base.WithChanges([]rewrite.SettingChange{{Action: rewrite.Set, Name: "a", SQL: "2"}, {Action: rewrite.Set, Name: "b", SQL: "3"}}, base)
	if s.SQL["a"] != "2" || s.SQL["b"] != "3" || base.SQL["a"] != "1" {
		t.Errorf("after SET: %v, base %v", s.SQL, base.SQL)
	}
	r := s.WithChanges([]rewrite.SettingChange{{Action: rewrite.Reset, Name: "a"}, {Action: rewrite.Reset, Name: "b"}}, base)
	if !r.Equal(base) {
		t.Errorf("after RESET: %v", r.SQL)
	}
	if all := s.WithChanges([]rewrite.SettingChange{{Action: rewrite.ResetAll}}, base); !all.Equal(base) {
		t.Errorf("after RESET ALL: %v", all.SQL)
	}
}

func TestStartupValues(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"timezone", "Europe/Berlin", `'Europe/Berlin'`},
		{"x", `it's \ here`, ` E'it''s \\ here'`},
		{"search_path", `a, "B c",public`, `'a', 'B c', 'public'`},
		{"search_path", `"$user", public`, `'$user', 'public'`},
		{"search_path", `"open`, `'"open'`},
		{"search_path", "", `''`},
	} {
		if got := StartupSQL(c[0], c[1]); got != c[2] {
			t.Errorf("%s=%s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
	for _, c := range [][3]string{
		{"client_encoding", "utf-8", "UTF8"}, {"client_encoding", "latin1", "LATIN1"},
		{"timezone", "UTC", "UTC"},
	} {
		if got := ReportedSpelling(c[0], c[1]); got != c[2] {
			t.Errorf("%s=%s reported as %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// Each word of the grammar is quoted where it must be: as the name of a setting it is one that no server knows.
func TestQuotedWords(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	conn, err := pgconn.Connect(ctx, pgtest.Start(t).DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	words, err := conn.Exec(ctx, "SELECT word FROM pg_get_keywords() WHERE word <> 'role'").ReadAll()
	if err != nil || len(words[0].Rows) < 400 {
		t.Fatal(err)
	}
	for _, row := range words[0].Rows {
		word := string(row[0])
		_, err := conn.Exec(ctx, DiffSQL(NewValues(nil), NewValues(map[string]string{word: "'1'"}))).ReadAll()
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42704" {
			t.Errorf("%s: %v", word, err)
		}
	}
}
