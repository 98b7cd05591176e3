package serversettings

import (
	"testing"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// TestCurrentReports checks the TimeZone that a client must know at a ReadyForQuery. Its startup gave America/New_York.
func TestCurrentReports(t *testing.T) {
	york := map[string]string{"timezone": "America/New_York"}
	tests := map[string]struct {
		postgres bool
		prepare  func(s scene)
		want     string
		unknown  bool // the values belong to no settings
	}{
		"without a backend":            {true, func(s scene) { s.m.Backend = nil }, "America/New_York", false},
		"the next backend has others":  {true, func(s scene) { s.b.RecordParameter("TimeZone", "Europe/Rome") }, "America/New_York", false},
		"SET between transactions":     {true, func(s scene) { s.of.SetCarried(set("timezone", "Asia/Tokyo")) }, "Asia/Tokyo", false},
		"RESET between transactions":   {true, func(s scene) { s.of.SetCarried(set("timezone", "Asia/Tokyo")); s.of.ResetSetting("timezone") }, "America/New_York", false},
		"in a block":                   {true, func(s scene) { s.apply(); s.m.Status = 'T'; s.b.RecordParameter("TimeZone", "Europe/Rome") }, "Europe/Rome", true},
		"in a block, behind a RESET":   {true, func(s scene) { s.apply(); s.m.Status = 'T'; s.stageReset() }, "America/New_York", true},
		"a kept backend":               {true, func(s scene) { s.apply(); s.m.Stays = true }, "America/New_York", true},
		"a kept backend, SET locally":  {true, func(s scene) { s.apply(); s.m.Stays = true; s.of.SetCarried(set("timezone", "Asia/Tokyo")) }, "Asia/Tokyo", true},
		"a failed block":               {true, func(s scene) { s.apply(); s.fail(); s.b.RecordParameter("TimeZone", "Europe/Rome") }, "Europe/Rome", true},
		"a failed block of a cluster":  {false, func(s scene) { s.apply(); s.fail(); s.b.RecordParameter("TimeZone", "Europe/Rome") }, "America/New_York", true},
		"behind a commit of a cluster": {false, func(s scene) { s.apply(); s.fail(); s.m.AtBegin = nil }, "America/New_York", true},
		"behind a savepoint": {false, func(s scene) {
			s.apply()
			s.fail()
			s.m.AtSavepoint = s.b.Reported().With("TimeZone", "Asia/Tokyo")
		}, "Asia/Tokyo", true},
		"a failed block behind an answered SET": {true, func(s scene) {
			s.apply()
			s.of.SetCarried(set("timezone", "Asia/Tokyo"))
			s.fail()
		}, "America/New_York", false},
	}
	for name, test := range tests {
		v := newTestShared(test.postgres)
		b := v.NewBackend(serverParams)
		s := scene{newTestClient(t, v, york), &b, &Moment{Backend: &b, Status: 'I'}}
		test.prepare(s)
		now, under := v.CurrentReports(s.of, *s.m)
		if got, _ := now.Get("timezone"); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if (under == nil) != test.unknown {
			t.Errorf("%s: the values belong to %v", name, under)
		}
	}
}

// scene is a client with a backend, at a moment.
type scene struct {
	of *settings.Client
	b  *Backend
	m  *Moment
}

// apply gives the backend the client's settings, which the server reports, and begins a transaction.
func (s scene) apply() {
	s.b.RecordParameter("TimeZone", "America/New_York")
	s.b.RecordApplied(s.of.InForce, false)
	s.m.AtBegin = s.of.InForce
}

// fail makes the client's block fail at the server.
func (s scene) fail() { s.m.Status, s.m.Failed = 'E', true }

// stageReset resets the TimeZone in the block, so that the server reports its own value.
func (s scene) stageReset() {
	s.of.Stage(reset("timezone"))
	s.b.RecordParameter("TimeZone", "UTC")
}

func TestReportsOfEqualSettings(t *testing.T) {
	v := newTestShared(true)
	b := v.NewBackend(serverParams)
	of := newTestClient(t, v, map[string]string{"timezone": "+3"})
	b.RecordParameter("TimeZone", "<+03>-03") // the server's spelling
	b.RecordApplied(of.InForce, false)
	of.Reported, of.ReportedFor = v.CurrentReports(of, Moment{Backend: &b, Status: 'I'})
	if b.MayReport(of) {
		t.Error("the client does not know the backend's values")
	}
	again, _ := v.CurrentReports(newTestClient(t, v, map[string]string{"timezone": "+3"}), Moment{})
	if got, _ := again.Get("timezone"); got != "<+03>-03" || again != of.Reported {
		t.Errorf("another client with the settings: %s", got)
	}
	b.RecordParameter("TimeZone", "UTC")
	if !b.MayReport(of) {
		t.Error("a new value of a parameter is not noticed")
	}
}

func TestAdoptReports(t *testing.T) {
	tests := map[string]struct {
		reports  map[string]string // during the transaction
		done     []rewrite.SettingChange
		newer    map[string]string // SET by the client, and not yet applied
		client   map[string]string // what becomes of the client's settings
		namesOff bool
		name     string // the client's application_name
	}{
		"nothing":               {},
		"set_config":            {reports: map[string]string{"TimeZone": "Asia/Tokyo"}, client: map[string]string{"timezone": "Asia/Tokyo"}},
		"the same SET":          {reports: map[string]string{"TimeZone": "Asia/Tokyo"}, done: []rewrite.SettingChange{set("timezone", "Asia/Tokyo")}, client: map[string]string{"timezone": "Asia/Tokyo"}},
		"spelt by the server":   {reports: map[string]string{"TimeZone": "<+03>-03"}, done: []rewrite.SettingChange{set("timezone", "+3")}, client: map[string]string{"timezone": "<+03>-03"}},
		"a fixed parameter":     {reports: map[string]string{"is_superuser": "on"}},
		"a list":                {reports: map[string]string{"search_path": "a, b"}},
		"a newer value":         {reports: map[string]string{"TimeZone": "Asia/Tokyo"}, newer: map[string]string{"timezone": "Europe/Rome"}, client: map[string]string{"timezone": "Europe/Rome"}},
		"application_name":      {reports: map[string]string{"application_name": "batch"}, name: "batch"},
		"a name, not adoptable": {reports: map[string]string{"application_name": "batch"}, namesOff: true},
	}
	for name, test := range tests {
		v := newTestShared(true)
		b := v.NewBackend(serverParams)
		of := newTestClient(t, v, nil)
		names := &AppNames{}
		if test.namesOff {
			names = nil
		}
		b.RecordApplied(of.InForce, false)
		for _, c := range test.done {
			of.Stage(c)
		}
		for p, value := range test.reports {
			b.RecordParameter(p, value)
		}
		done, _ := of.Commit()
		b.RecordCommitted(done)
		for n, value := range test.newer {
			of.SetCarried(set(n, value))
		}
		if b.HasNews(done) != (len(test.reports) > 0) {
			t.Errorf("%s: news: %v", name, b.HasNews(done))
		}
		of.ApplyCommitted(b.AdoptReports(of.InForce, done, names))
		b.EndComparison()
		if names != nil {
			names.EndTransaction(of, false)
		}
		if want := newTestValues(test.client); !of.InForce.Equal(want) {
			t.Errorf("%s: the client has %v, want %v", name, of.InForce.SQL, want.SQL)
		}
		if got := of.ShownValue(AppName); got != test.name {
			t.Errorf("%s: application_name %q, want %q", name, got, test.name)
		}
		if b.HasNews(nil) || len(b.AdoptReports(of.InForce, nil, names)) > 0 {
			t.Errorf("%s: the same reports are compared again", name)
		}
		if more := b.NewParameters(); len(more) != len(test.reports) {
			t.Errorf("%s: changed since the dial: %v", name, more)
		}
	}
}

func TestHasChangedRole(t *testing.T) {
	for _, test := range []struct {
		name, value  string
		plain, asked bool
	}{
		{"is_superuser", "off", false, false}, {"is_superuser", "on", true, false},
		{"session_authorization", "bob", true, true}, {"TimeZone", "Asia/Tokyo", false, false},
	} {
		b := newTestShared(true).NewBackend(serverParams)
		b.RecordParameter(test.name, test.value)
		if plain, asked := b.HasChangedRole(false), b.HasChangedRole(true); plain != test.plain || asked != test.asked {
			t.Errorf("%+v: %v, %v", test, plain, asked)
		}
	}
}

func TestMayHaveReset(t *testing.T) {
	for name, test := range map[string]struct {
		startup map[string]string
		report  string // of TimeZone
		silent  bool
		want    bool
	}{
		"no startup":                   {nil, "UTC", true, false},
		"in force":                     {map[string]string{"timezone": "Asia/Tokyo"}, "Asia/Tokyo", true, false},
		"reset":                        {map[string]string{"timezone": "Asia/Tokyo"}, "UTC", false, true},
		"SET since":                    {map[string]string{"timezone": "Asia/Tokyo"}, "Europe/Rome", true, false},
		"the startup is the default":   {map[string]string{"timezone": "UTC"}, "UTC", true, false},
		"not reported":                 {map[string]string{"work_mem": "9MB"}, "UTC", true, true},
		"not reported, at a reset end": {map[string]string{"work_mem": "9MB"}, "UTC", false, false},
	} {
		v := newTestShared(true)
		b := v.NewBackend(serverParams)
		b.RecordParameter("TimeZone", test.report)
		if got := b.MayHaveReset(newTestClient(t, v, test.startup), test.silent); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
