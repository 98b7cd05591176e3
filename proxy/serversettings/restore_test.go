package serversettings

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

func TestStartupToRestore(t *testing.T) {
	startup := map[string]string{"timezone": "Asia/Tokyo", "work_mem": "9MB"}
	for name, test := range map[string]struct {
		changes []rewrite.SettingChange
		want    string
	}{
		"nothing":           {nil, ""},
		"SET":               {[]rewrite.SettingChange{set("timezone", "UTC")}, ""},
		"RESET":             {[]rewrite.SettingChange{reset("timezone")}, "SET timezone TO 'Asia/Tokyo'; "},
		"RESET of others":   {[]rewrite.SettingChange{reset("statement_timeout")}, ""},
		"RESET ALL":         {[]rewrite.SettingChange{{Action: rewrite.ResetAll}}, "SET timezone TO 'Asia/Tokyo'; SET work_mem TO '9MB'; "},
		"SET LOCAL":         {[]rewrite.SettingChange{{Action: rewrite.SetLocal, Name: "timezone", SQL: "'UTC'"}}, ""},
		"SET LOCAL DEFAULT": {[]rewrite.SettingChange{{Action: rewrite.SetLocal, Name: "timezone", Default: true}}, "SET LOCAL timezone TO 'Asia/Tokyo'; "},
		"SET behind RESET":  {[]rewrite.SettingChange{reset("timezone"), set("timezone", "UTC")}, ""},
	} {
		of := newTestClient(t, newTestShared(true), startup)
		for _, c := range test.changes {
			of.Stage(c)
		}
		if got := setsSQL(StartupToRestore(of)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestResetAsSet(t *testing.T) {
	of := newTestClient(t, newTestShared(true), map[string]string{"timezone": "Asia/Tokyo", "datestyle": "DMY"})
	for name, want := range map[string]string{"timezone": "SET timezone TO 'Asia/Tokyo'", "work_mem": "", "datestyle": ""} {
		c, ok := ResetAsSet(of, &rewrite.Statement{Changes: []rewrite.SettingChange{reset(name)}})
		if ok != (want != "") || ok && (SetSQL(c) != want || c.Text == "") {
			t.Errorf("RESET %s: %+v, %v", name, c, ok)
		}
	}
	if _, ok := ResetAsSet(of, &rewrite.Statement{Changes: []rewrite.SettingChange{set("timezone", "UTC")}}); ok {
		t.Error("a SET is replaced")
	}
}

func TestTakeAnsweredResets(t *testing.T) {
	of := newTestClient(t, newTestShared(true), map[string]string{"timezone": "Asia/Tokyo"})
	if got := TakeAnsweredResets(of); got != nil {
		t.Errorf("without a change: %v", got)
	}
	of.SetCarried(set("timezone", "UTC"))
	of.SetCarried(set("work_mem", "9MB"))
	of.EndLocalChanges(false)
	was := of.InForce
	of.ResetAll()
	if got := setsSQL(TakeAnsweredResets(of)); got != "SET timezone TO 'Asia/Tokyo'; SET work_mem TO DEFAULT; " {
		t.Errorf("RESET ALL: %s", got)
	}
	if of.InForce != was {
		t.Error("the answered RESET is still in force")
	}
}

func TestCheckAfterReset(t *testing.T) {
	planner, err := rewrite.New(rewrite.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		sql     string
		refused bool
	}{
		"at the end":            {"SELECT a; RESET timezone", false},
		"in front":              {"RESET timezone; SELECT a", true},
		"RESET ALL":             {"RESET ALL; SELECT a", true},
		"of another setting":    {"RESET work_mem; SELECT a", false},
		"SET":                   {"SET timezone TO 'UTC'; SELECT a", false},
		"SET to DEFAULT":        {"SET timezone TO DEFAULT; SELECT a", true},
		"of a pool":             {"RESET ALL; UNLISTEN *; CLOSE ALL; SELECT 1", false},
		"SET behind":            {"RESET ALL; SET work_mem TO '1MB'", false},
		"half a DateStyle":      {"RESET ALL; SET datestyle TO 'DMY'", true},
		"COMMIT behind":         {"RESET timezone; COMMIT", false},
		"a block behind COMMIT": {"RESET timezone; COMMIT; BEGIN", true},
		"COMMIT AND CHAIN":      {"RESET timezone; COMMIT AND CHAIN", true},
	}
	for name, test := range tests {
		of := newTestClient(t, newTestShared(true), map[string]string{"timezone": "Asia/Tokyo", "datestyle": "MDY"})
		plan := planner.Plan([]byte(test.sql))
		err := CheckAfterReset(of, plan, []byte(test.sql), func(int) bool { return false })
		if (err != nil) != test.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err := CheckAfterReset(of, plan, []byte(test.sql), func(int) bool { return true }); err != nil {
			t.Errorf("%s, answered by Sluice: %v", name, err)
		}
		if err := CheckAfterReset(newTestClient(t, newTestShared(true), nil), plan, []byte(test.sql), func(int) bool { return false }); err != nil {
			t.Errorf("%s, without a startup's settings: %v", name, err)
		}
	}
}

func TestFindSQL(t *testing.T) {
	const restored, unlisted = "reset_val", "unnest"
	tests := map[string]struct {
		startup  map[string]string
		staged   []rewrite.SettingChange
		restored []string
		ended    bool
		want     []string
		wantNot  []string
	}{
		"a block":                 {startup: map[string]string{"timezone": "UTC", "work_mem": "9MB"}, restored: []string{"timezone"}, want: []string{"ANY (ARRAY['timezone', 'work_mem']::"}, wantNot: []string{restored, unlisted}},
		"the end of a block":      {startup: map[string]string{"timezone": "UTC"}, restored: []string{"timezone", "timezone"}, ended: true, want: []string{restored, "ANY (ARRAY['timezone']::pg_catalog.text[]))"}, wantNot: []string{unlisted}},
		"nothing was restored":    {startup: map[string]string{"timezone": "UTC"}, ended: true, wantNot: []string{restored, unlisted}},
		"a role and a dot":        {startup: map[string]string{"role": "bob", "app.user": "x"}, want: []string{"unnest(ARRAY['app.user', 'role']::"}},
		"no role, no value":       {startup: map[string]string{"role": "none", "app.user": ""}, wantNot: []string{unlisted}},
		"a staged value of a dot": {startup: map[string]string{"app.user": ""}, staged: []rewrite.SettingChange{set("app.user", "y")}, want: []string{"unnest(ARRAY['app.user']::"}},
	}
	for name, test := range tests {
		of := newTestClient(t, newTestShared(true), test.startup)
		for _, c := range test.staged {
			of.Stage(c)
		}
		var r TxResets
		if r.ArePossible() {
			t.Error("resets are possible before any statement")
		}
		r.Mark()
		r.RecordRestored(StartupInBlock(of, test.restored))
		got := r.FindSQL(of, test.ended)
		for _, part := range test.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: no %q in %s", name, part, got)
			}
		}
		for _, part := range test.wantNot {
			if strings.Contains(got, part) {
				t.Errorf("%s: %q in %s", name, part, got)
			}
		}
		if !r.ArePossible() {
			t.Errorf("%s: not marked", name)
		}
	}
}

func TestAdoptResets(t *testing.T) {
	v := newTestShared(true)
	b := v.NewBackend(serverParams)
	of := newTestClient(t, v, map[string]string{"timezone": "Asia/Tokyo"})
	of.SetCarried(set("timezone", "Europe/Rome"))
	of.SetCarried(set("work_mem", "9MB"))
	b.RecordApplied(of.InForce, false)
	b.AdoptResets(of, []string{"timezone"})
	if want := newTestValues(map[string]string{"timezone": "Asia/Tokyo", "work_mem": "9MB"}); !of.InForce.Equal(want) {
		t.Errorf("the client has %v", of.InForce.SQL)
	}
	if got := b.ChangeTo(of.InForce, false); got != (Change{SQL: "SET timezone TO 'Asia/Tokyo'; "}) {
		t.Errorf("the backend gets %+v", got)
	}
	if got := setsSQL(StartupInBlock(of, []string{"timezone"})); got != "SET LOCAL timezone TO 'Asia/Tokyo'; " {
		t.Errorf("in a block: %s", got)
	}
}

// setsSQL returns the SQL of SETs with "; " behind each.
func setsSQL(sets []rewrite.SettingChange) string {
	if len(sets) == 0 {
		return ""
	}
	return SetSQL(sets...) + "; "
}
