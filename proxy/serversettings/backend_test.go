package serversettings

import (
	"testing"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// serverParams are the parameters of the servers in these tests.
var serverParams = map[string]string{"DateStyle": "ISO, MDY", "TimeZone": "UTC", "application_name": "", "is_superuser": "off", "session_authorization": "admin",
	"client_encoding": "UTF8", "standard_conforming_strings": "on"}

func newTestShared(postgres bool) *Shared {
	return NewShared(postgres, settings.NewTreatments(!postgres, false, nil), func() map[string]string { return serverParams })
}

// newTestClient returns a client whose startup has the settings in startup.
func newTestClient(t *testing.T, v *Shared, startup map[string]string) *settings.Client {
	t.Helper()
	c := v.NewClient()
	if err := c.ApplyStartup(newTestValues(startup)); err != nil {
		t.Fatal(err)
	}
	c.Reported = v.Parameters()
	return &c
}

// newTestValues returns Values of a map from names to values without quotes.
func newTestValues(of map[string]string) *settings.Values {
	sql, shown := map[string]string{}, map[string]string{}
	for name, value := range of {
		sql[name], shown[name] = settings.QuoteLiteral(value), value
	}
	made := settings.NewValues(sql)
	made.Shown = shown
	return made
}

func set(name, value string) rewrite.SettingChange {
	return rewrite.SettingChange{Action: rewrite.Set, Name: name, SQL: settings.QuoteLiteral(value), Text: value}
}

func reset(name string) rewrite.SettingChange {
	return rewrite.SettingChange{Action: rewrite.Reset, Name: name}
}

const postgresReset = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; "

func TestChangeTo(t *testing.T) {
	tokyo, york := map[string]string{"timezone": "Asia/Tokyo"}, map[string]string{"timezone": "America/New_York"}
	tests := map[string]struct {
		has, wants  map[string]string
		unseen      bool
		keepsUnseen bool
		want        Change
	}{
		"none to none":        {nil, nil, false, false, Change{}},
		"equal":               {tokyo, tokyo, false, false, Change{}},
		"a value":             {nil, tokyo, false, false, Change{SQL: "SET timezone TO 'Asia/Tokyo'; "}},
		"another value":       {york, tokyo, false, false, Change{SQL: "SET timezone TO 'Asia/Tokyo'; "}},
		"no value":            {york, nil, false, false, Change{SQL: "RESET timezone; "}},
		"unseen":              {tokyo, tokyo, true, false, Change{SQL: postgresReset + "SET timezone TO 'Asia/Tokyo'; ", Resets: true}},
		"unseen without any":  {nil, nil, true, false, Change{SQL: postgresReset, Resets: true}},
		"unseen of the owner": {tokyo, york, true, true, Change{SQL: "SET timezone TO 'America/New_York'; "}},
	}
	for name, test := range tests {
		b := newTestShared(true).NewBackend(serverParams)
		b.RecordApplied(newTestValues(test.has), false)
		if test.unseen {
			b.RecordUnseen()
		}
		to := newTestValues(test.wants)
		got := b.ChangeTo(to, test.keepsUnseen)
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		b.RecordApplied(to, got.Resets)
		if b.MayHaveUnseen() != (test.unseen && test.keepsUnseen) {
			t.Errorf("%s: unseen settings: %v", name, b.MayHaveUnseen())
		}
		if again := b.ChangeTo(newTestValues(test.wants), true); again != (Change{}) {
			t.Errorf("%s: once more: %+v", name, again)
		}
	}
}

func TestChangeToNone(t *testing.T) {
	for _, test := range []struct {
		postgres, unseen bool
		has              map[string]string
		want             Change
	}{
		{true, false, nil, Change{}},
		{true, true, nil, Change{postgresReset, true}},
		{true, false, map[string]string{"statement_timeout": "1s"}, Change{postgresReset, true}},
		{false, true, map[string]string{"timezone": "UTC"}, Change{}},
	} {
		v := newTestShared(test.postgres)
		b := v.NewBackend(serverParams)
		b.RecordCommitted([]rewrite.SettingChange{})
		for name, value := range test.has {
			b.RecordCommitted([]rewrite.SettingChange{set(name, value)})
		}
		if test.unseen {
			b.RecordUnseen()
		}
		if got := b.ChangeToNone(); got != test.want {
			t.Errorf("%+v: %+v", test, got)
		}
		b.RecordReset()
		if got := b.ChangeToNone(); got != (Change{}) {
			t.Errorf("%+v, after the reset: %+v", test, got)
		}
	}
	const cluster = "RESET client_encoding; RESET datestyle; RESET extra_float_digits; RESET intervalstyle; RESET search_path; RESET timezone; "
	if got := newTestShared(false).ResetSQL(); got != cluster {
		t.Errorf("a cluster: %s", got)
	}
}

func TestRecordCommitted(t *testing.T) {
	b := newTestShared(true).NewBackend(serverParams)
	for _, step := range []struct {
		change rewrite.SettingChange
		want   map[string]string
	}{
		{set("timezone", "Asia/Tokyo"), map[string]string{"timezone": "Asia/Tokyo"}},
		{set("work_mem", "9MB"), map[string]string{"timezone": "Asia/Tokyo", "work_mem": "9MB"}},
		{reset("timezone"), map[string]string{"work_mem": "9MB"}},
		{rewrite.SettingChange{Action: rewrite.DiscardAll}, nil},
	} {
		b.RecordCommitted([]rewrite.SettingChange{step.change})
		if got := b.ChangeTo(newTestValues(step.want), false); got != (Change{}) {
			t.Errorf("after %+v: %+v", step.change, got)
		}
	}
}

func TestReading(t *testing.T) {
	v := newTestShared(true)
	b := v.NewBackend(serverParams)
	check := func(when string, reported, next, without rewrite.ReadingMode) {
		t.Helper()
		sjis := newTestValues(map[string]string{"client_encoding": "SJIS"})
		if b.Reading() != reported || b.NextReading() != next || v.ReadingUnder(v.NewClient().InForce) != without {
			t.Errorf("%s: %v, next %v, without a backend %v", when, b.Reading(), b.NextReading(), v.ReadingUnder(v.NewClient().InForce))
		}
		if got := v.ReadingUnder(sjis); got != rewrite.Recoded|without&^rewrite.Recoded {
			t.Errorf("%s: %v under SJIS", when, got)
		}
	}
	check("dialled", 0, 0, 0)
	b.RecordParameter("standard_conforming_strings", "off")
	check("without standard strings", rewrite.Escaping, rewrite.Escaping, 0)
	b.RecordParameter("client_encoding", "SJIS")
	check("in SJIS", rewrite.Escaping|rewrite.Recoded, rewrite.Escaping|rewrite.Recoded, 0)
	b.RecordParameter("standard_conforming_strings", "on")
	b.RecordParameter("client_encoding", "UTF8")
	b.RecordApplied(newTestValues(map[string]string{"client_encoding": "SJIS"}), false)
	check("SJIS is applied", 0, rewrite.Recoded, 0)
	other := v.NewBackend(map[string]string{"standard_conforming_strings": "off"})
	v.RecordReading(&other)
	check("beside another server", 0, rewrite.Recoded, rewrite.Escaping)
}

func TestGreeting(t *testing.T) {
	v := newTestShared(true)
	sent, known := v.Greeting(v.Parameters(), newTestValues(map[string]string{"datestyle": "DMY", "application_name": "psql", "timezone": "Asia/Tokyo"}))
	got := map[string]string{}
	for _, p := range sent {
		got[p.Name] = p.Value
	}
	for name, want := range map[string][2]string{"DateStyle": {"ISO, DMY", "datestyle"}, "TimeZone": {"Asia/Tokyo", "timezone"}} {
		if value, _ := known.Get(want[1]); got[name] != want[0] || value != want[0] {
			t.Errorf("%s: %q, known %q", name, got[name], value)
		}
	}
	if value, _ := known.Get(AppName); got[AppName] != "psql" || value != "" {
		t.Errorf("application_name: %q, known %q", got[AppName], value)
	}
}
