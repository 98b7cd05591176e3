package proxy

import (
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

func TestTreatments(t *testing.T) {
	t.Parallel()
	ignore := []string{"lock_timeout", "standard_conforming_strings=on"}
	dsql := newTreatments(true, false, ignore)
	pg := newTreatments(false, true, ignore)
	for _, c := range []struct {
		in          treatments
		name, value string
		want        treatment
	}{
		{dsql, "timezone", "UTC", carried}, {dsql, "statement_timeout", "5s", kept},
		{dsql, "application_name", "x", kept}, {dsql, "lock_timeout", "1s", ignored},
		{dsql, "standard_conforming_strings", "on", ignored}, {dsql, "standard_conforming_strings", "true", ignored},
		{dsql, "standard_conforming_strings", "off", foreign}, {dsql, "work_mem", "4MB", foreign},
		{pg, "lock_timeout", "1s", carried}, {pg, "application_name", "x", carried}, {pg, "my.own", "x", carried},
	} {
		if got := c.in.to(c.name, c.value); got != c.want {
			t.Errorf("DSQL %v, %s = %s: %d, want %d", c.in.dsql, c.name, c.value, got, c.want)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	from := newSettings(map[string]string{"timezone": "'UTC'", "datestyle": "'ISO'", "gone": "1"})
	to := newSettings(map[string]string{"timezone": "'Asia/Tokyo'", "datestyle": "'ISO'", "my.Own": "'x'"})
	if got, want := diff(from, to), `RESET gone; SET my."Own" TO 'x'; SET timezone TO 'Asia/Tokyo'; `; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := diff(to, to); got != "" {
		t.Errorf("no difference gives %q", got)
	}
	if from.parsing == to.parsing || from.parsing.all&1 != 0 {
		t.Error("TimeZone changes what a Parse means")
	}
}

// What a reset returns to is the startup's value, not the server's.
func TestSettingsWith(t *testing.T) {
	t.Parallel()
	base := newSettings(map[string]string{"a": "1"})
	s := base.with([]rewrite.Change{{Action: rewrite.Set, Name: "a", SQL: "2"}, {Action: rewrite.Set, Name: "b", SQL: "3"}}, base)
	if s.vals["a"] != "2" || s.vals["b"] != "3" || base.vals["a"] != "1" {
		t.Errorf("after SET: %v, base %v", s.vals, base.vals)
	}
	r := s.with([]rewrite.Change{{Action: rewrite.Reset, Name: "a"}, {Action: rewrite.Reset, Name: "b"}}, base)
	if !r.equal(base) {
		t.Errorf("after RESET: %v", r.vals)
	}
	if all := s.with([]rewrite.Change{{Action: rewrite.ResetAll}}, base); !all.equal(base) {
		t.Errorf("after RESET ALL: %v", all.vals)
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
		if got := startupSQL(c[0], c[1]); got != c[2] {
			t.Errorf("%s=%s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
	for _, c := range [][3]string{
		{"client_encoding", "utf-8", "UTF8"}, {"client_encoding", "latin1", "LATIN1"},
		{"timezone", "UTC", "UTC"},
	} {
		if got := asReported(c[0], c[1]); got != c[2] {
			t.Errorf("%s=%s reported as %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
