package opening

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

func newReader(t *testing.T, dsql bool) (r *Reader, refused *int) {
	t.Helper()
	planner, err := rewrite.New(rewrite.Config{Rules: rewrite.AllRules(), MaxBytes: 64 << 10, MaxNesting: 100, CacheEntries: 100, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	refused = new(int)
	return &Reader{Postgres: !dsql, DSQL: dsql, Treat: settings.NewTreatments(dsql, false, []string{"lock_timeout"}),
		Normal:       func(name, value string) (string, *wire.Error) { return strings.ToLower(value), nil },
		Plan:         func(sql string) *rewrite.Statement { return planner.Plan([]byte(sql)).SingleStatement() },
		CountRefusal: func() { *refused++ }}, refused
}

func codeOf(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// TestRead has startup packets and their settings: name=value for the server, name:value for Sluice, name? for a doubt.
func TestRead(t *testing.T) {
	for _, test := range []struct {
		dsql            bool
		name, value     string
		want            string
		code            string
		counts, ignores bool
		optsOut         bool
	}{
		{name: "application_name", value: "a", want: "application_name:a"},
		{name: "datestyle", value: "German", want: "datestyle='German, DMY' datestyle?"},
		{name: "work_mem", value: "8MB", want: "work_mem='8MB' work_mem?"},
		{name: "session_authorization", value: "app", want: "session_authorization?"},
		{name: "standard_conforming_strings", value: "off", code: "0A000", counts: true},
		{name: "standard_conforming_strings", value: "maybe", code: "22023"},
		{name: "a..b", value: "1", code: "42602"}, {name: "session_preload_libraries", value: "x", code: "55P02"},
		{name: "sluice.retry", value: "off", optsOut: true}, {name: "sluice.retry", value: "on"}, {name: "sluice.retry", value: "often", code: "22023"},
		{dsql: true, name: "role", value: "none"}, {dsql: true, name: "role", value: "app", code: "0A000", counts: true},
		{dsql: true, name: "lock_timeout", value: "1s", want: "lock_timeout:1s", ignores: true},
		{dsql: true, name: "default_transaction_isolation", value: "repeatable read"},
		{dsql: true, name: "default_transaction_isolation", value: "serializable", code: "0A000", counts: true},
		{dsql: true, name: "nosuch", value: "1", code: "0A000", counts: true},
	} {
		r, refused := newReader(t, test.dsql)
		of, err := r.Read(map[string]string{test.name: test.value})
		if codeOf(err) != test.code || (*refused > 0) != test.counts {
			t.Errorf("%s=%s: %v, %d counted", test.name, test.value, err, *refused)
		}
		if err != nil {
			continue
		}
		var got []string
		for name, value := range of.SQL {
			got = append(got, name+"="+value)
		}
		for name, value := range of.Local {
			got = append(got, name+":"+value)
		}
		for name := range of.Doubts {
			got = append(got, name+"?")
		}
		if s := strings.Join(got, " "); s != test.want || of.OptsOut != test.optsOut || (len(of.Ignored) > 0) != test.ignores {
			t.Errorf("%s=%s: %s, %+v", test.name, test.value, s, of)
		}
		if v := of.Values(); len(v.SQL) != len(of.SQL) || !maps.Equal(v.StartupLocal, of.Local) {
			t.Errorf("%s=%s: values %+v", test.name, test.value, v)
		}
	}
}

func TestInSchema(t *testing.T) {
	for _, test := range []struct {
		schema, path string
		given        bool
		want         string
	}{
		{"app", "", false, "app"}, {"app", "app", true, "app"}, {"app", " APP ", true, "app"}, {"app", `"app"`, true, "app"},
		{"app", "public", true, ""}, {"app", "app, public", true, ""}, {"App", "", false, `"App"`}, {"App", `"App"`, true, `"App"`}, {"App", "App", true, ""},
	} {
		params := map[string]string{"timezone": "UTC"}
		if test.given {
			params["search_path"] = test.path
		}
		got, err := InSchema(params, test.schema)
		if got["search_path"] != test.want || (err == nil) != (test.want != "") || err == nil && got["timezone"] != "UTC" {
			t.Errorf("%s with %q: %v, %v", test.schema, test.path, got, err)
		}
	}
}

// TestSpelling finds that an error has the parameter's name as the client spelt it, where a server's would.
func TestSpelling(t *testing.T) {
	spelt := map[string]string{"nosuch": "NoSuch", "client_encoding": "Client_Encoding"}
	for _, test := range [][2]string{
		{`unrecognized configuration parameter "nosuch"`, `unrecognized configuration parameter "NoSuch"`},
		{`invalid value for parameter "client_encoding": "x"`, `invalid value for parameter "client_encoding": "x"`},
		{`invalid configuration parameter name "nosuch"`, `invalid configuration parameter name "NoSuch"`},
	} {
		was := &wire.Error{Code: "42704", Message: test[0]}
		var e *wire.Error
		if !errors.As(WithClientSpelling(was, spelt), &e) || e.Message != test[1] || was.Message != test[0] {
			t.Errorf("%s: %+v", test[0], e)
		}
	}
	if err := WithClientSpelling(io.EOF, spelt); err != io.EOF {
		t.Errorf("another error: %v", err)
	}
}

func TestRefusalLabel(t *testing.T) {
	for want, errs := range map[string][]error{
		metrics.RefusedTimeout: {startup.ErrTimeout}, metrics.RefusedGone: {io.EOF}, metrics.RefusedProtocol: {errors.New("no packet"), &wire.Error{Code: "08P01"}},
		metrics.RefusedClients: {&wire.Error{Code: "53300", Message: "sorry, too many clients already"}}, metrics.RefusedBackend: {&wire.Error{Code: "53300", Message: "no backend"}},
		metrics.RefusedAuth: {&wire.Error{Code: "28P01"}, fmt.Errorf("startup: %w", &wire.Error{Code: "28000"})}, metrics.RefusedParameter: {&wire.Error{Code: "42704"}, &wire.Error{Code: "55P02"}},
		metrics.RefusedDatabase: {&wire.Error{Code: "3D000"}}, metrics.RefusedMemory: {&wire.Error{Code: "53200"}}, metrics.RefusedDraining: {&wire.Error{Code: "57P01"}},
	} {
		for _, err := range errs {
			if got := RefusalLabel(err); got != want {
				t.Errorf("%v: %s, want %s", err, got, want)
			}
		}
	}
}

// TestGreetings finds that clients with the same settings share a greeting, and that the cache is bounded.
func TestGreetings(t *testing.T) {
	treat := settings.NewTreatments(false, false, nil)
	shared := serversettings.NewShared(true, treat, func() map[string]string { return map[string]string{"TimeZone": "UTC", "server_version": "15"} })
	params := shared.Parameters()
	york := settings.NewValues(map[string]string{"timezone": "'America/New_York'"})
	york.Shown = map[string]string{"timezone": "America/New_York"}
	var all Greetings
	first := all.Find(shared, params, york)
	if again := all.Find(shared, params, york); again != first {
		t.Error("a second client got another greeting")
	}
	if !strings.Contains(string(first.Frames), "TimeZone\x00America/New_York\x00") || !strings.Contains(string(first.Frames), "server_version\x0015\x00") {
		t.Errorf("%q", first.Frames)
	}
	for range 2 * greetingLimit {
		all.Find(shared, params, settings.NewValues(map[string]string{}))
	}
	if len(all.m) > greetingLimit {
		t.Errorf("%d greetings are stored", len(all.m))
	}
}
