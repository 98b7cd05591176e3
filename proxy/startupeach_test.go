package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// oddStartups are parameters that a startup cannot give, or that mean something of their own, and
// odd spellings of names and of values.
func oddStartups() (all []map[string]string) {
	for _, name := range []string{"session_authorization", "role", "is_superuser", "server_version", "server_version_num", "server_encoding", "in_hot_standby",
		"integer_datetimes", "transaction_isolation", "transaction_read_only", "transaction_deferrable", "standard_conforming_strings", "seed", "application_name",
		"local_preload_libraries", "SESSION_PRELOAD_LIBRARIES", "search_path", "client_encoding", "datestyle", "timezone", "extra_float_digits", "statement_timeout", "default_transaction_read_only",
		"no such", "a=b", "1a", "a.b", "a.1", "a.b.c", ".", "a.", ".a", "a b.c", "-", "ä", "a'b", `a"b`, "a;b", "work mem", "all", "time zone", "names", "session characteristics", "select", "User", "current_date"} {
		for _, value := range []string{"", "postgres", "none", "DEFAULT", "default", "'none'", "on", "1", " ", "UTF8", "a'b", "serializable", "repeatable read", "read committed", "OFF", "of"} {
			all = append(all, map[string]string{name: value}, map[string]string{strings.ToUpper(name): value})
		}
	}
	return all
}

// startupOutcome compares what a startup was told with what PostgreSQL tells: "" where Sluice may say so.
func startupOutcome(kind, name, got, want string) string {
	refusedHere, refused := strings.Contains(got, "E S=FATAL"), strings.Contains(want, "E S=FATAL")
	switch {
	case sorted(got) == sorted(want):
	case kind == "dsql" && refusedHere && (refused || strings.Contains(got, "C=0A000")):
	// docs/compatibility/connections.md
	case refusedHere && strings.Contains(got, "C=55P02") && strings.HasSuffix(got, "cannot be set after connection start\nEOF\n"):
	case strings.EqualFold(name, "standard_conforming_strings") && !refused && strings.Contains(got, "C=0A000"):
	case name == "temp_tablespaces" && !refused && strings.Contains(got, "C=42704 M=tablespace"):
	default:
		return firstDifference(got, want)
	}
	return ""
}

// Each setting that the server has, and names that it has not, given by a startup with usual and odd
// values: kind postgres answers as PostgreSQL does. Kind dsql lets nobody in whom PostgreSQL refuses,
// and refuses others only with words of its own.
func TestStartupsOfEachSetting(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	all := oddStartups()
	rows := strings.Split(strings.TrimSpace(pg.SQL(t, "postgres", "SELECT name || '|' || coalesce(setting, '') || '|' || coalesce(boot_val, '') FROM pg_settings ORDER BY 1")), "\n")
	for _, row := range rows {
		name, values, _ := strings.Cut(row, "|")
		now, boot, _ := strings.Cut(values, "|")
		for _, value := range []string{now, boot, "", "0", "1", "-1", "nope", "on", "1.5", "default"} {
			all = append(all, map[string]string{name: value})
		}
		all = append(all, map[string]string{strings.ToUpper(name): "nope"}, map[string]string{"options": "--" + strings.ReplaceAll(strings.ToUpper(name), "_", "-") + "=-1"})
	}
	if len(rows) < 300 {
		t.Fatalf("%d settings", len(rows))
	}
	for kind, opts := range map[string][]option{"postgres": {maxOpen(2)}, "dsql": {asDSQL, maxOpen(2)}} {
		s := startSluice(t, pg, opts...)
		if _, told := starts(t, s.addr, map[string]string{"session_preload_libraries": "auto_explain"}); !strings.Contains(told, "E S=FATAL") {
			t.Errorf("%s: a library that is not loaded: told %s", kind, told)
		}
		rng := rand.New(rand.NewPCG(39, 6))
		refused, differ := 0, 0
		for _, params := range all {
			if rng.IntN(proxy.OneIn) != 0 {
				continue
			}
			direct, want := starts(t, pg.addr, params)
			c, got := starts(t, s.addr, params)
			if strings.Contains(want, "E S=FATAL") {
				refused++
			}
			for name := range params {
				if different := startupOutcome(kind, name, got, want); different != "" {
					differ++
					t.Errorf("%s: %q: told %s", kind, params, different)
				}
			}
			if !strings.Contains(want+got, "E S=FATAL") && !strings.Contains(strings.ToLower(fmt.Sprint(params)), "timeout") {
				const q = "Q SELECT 1, session_user, current_user, current_setting('is_superuser'), random() = 1\n< Z\nQ SHOW transaction_read_only\n< Z\n"
				for range 2 {
					if got, want := c.play(t, q), direct.play(t, q); got != want {
						t.Errorf("%s: %q: then %s", kind, params, firstDifference(got, want))
					}
				}
			}
			c.conn.Close()
			direct.conn.Close()
		}
		t.Logf("%s: %d of %d are refused by PostgreSQL, %d differ", kind, refused, len(all), differ)
		if refused == 0 {
			t.Errorf("%s: none was refused", kind)
		}
	}
}
