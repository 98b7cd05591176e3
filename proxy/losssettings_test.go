package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A backend that is lost while the client's settings are applied has got nothing
// of the client's: another is taken.
func TestLostWhileSettingsAreApplied(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for name, opts := range map[string][]option{"replay off": nil, "replay on": {fastReplay}, "session": {sessionPairing}} {
		t.Run(name, func(t *testing.T) {
			var cut cutter
			s := startSluice(t, pg, append([]option{cut.option, maxOpen(3), asDSQL}, opts...)...)
			script := "Q SET TimeZone = 'Asia/Tokyo'\n< Z\nQ BEGIN\n< Z\nQ SHOW TimeZone\n< Z\nQ COMMIT\n< Z\nQ SHOW TimeZone\n< Z\n"
			want := perform(t, pg.addr, script)
			if got := perform(t, s.addr, script); got != want { // the backend has the setting now
				t.Fatalf("before:\n%s", firstDifference(got, want))
			}
			for _, script := range []string{"Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ COMMIT\n< Z\n", "Q SELECT 1\n< Z\n"} {
				perform(t, s.addr, "Q SET TimeZone = 'Asia/Tokyo'\n< Z\n")
				want, cuts := perform(t, pg.addr, script), cut.cuts.Load()
				if name != "session" { // where no backend comes from another client
					cut.arm("RESET timezone", false)
				}
				if got := perform(t, s.addr, script); got != want {
					t.Errorf("through Sluice:\n%s", firstDifference(got, want))
				}
				if name != "session" && cut.cuts.Load() != cuts+1 {
					t.Error("nothing was lost")
				}
				waitFor(t, "backends to come back", func() bool { return s.backends.Stats().InUse == 0 })
			}
		})
	}
}

// When backends are lost again and again the client is told.
func TestLostAgainWhileSettingsAreApplied(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	var cut cutter
	s := startSluice(t, pg, cut.option, maxOpen(3), asDSQL, func(s *setup) { s.backends.CheckoutWait = 30 * time.Second })
	conn := connect(t, s.addr)
	exec := func(sql, want string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); code(err) != want {
			t.Errorf("%s: got %v, want %s", sql, err, want)
		}
	}
	exec("SET TimeZone = 'Asia/Tokyo'", "<nil>")
	perform(t, s.addr, "Q SELECT 1\n< Z\n") // has the server's own again
	cut.again.Store(true)
	cut.arm("SET timezone", false)
	exec("SELECT 1", "08006")
	exec("BEGIN", "<nil>")
	exec("SELECT 1", "08006")
	exec("SELECT 1", "25P02")
	exec("ROLLBACK", "<nil>")
	if n := cut.cuts.Load(); n != 6 {
		t.Errorf("%d backends were lost, want 6", n)
	}
	cut.word.Store(nil)
	exec("SELECT 1", "<nil>")
}

// A server that cannot carry out settings now has refused none: another backend is taken, and the client sees
// nothing of it. A timeout of the client's own may have cut the first Query short, so that it is sent five times.
// Where three backends in a row cannot, the client is sent the server's error. A refusal is the client's at once.
func TestServersThatCannotApplySettings(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	script := "Q BEGIN /*c*/\n< Z\nQ SHOW TimeZone /*c*/\n< Z\nQ COMMIT /*c*/\n< Z\nQ SHOW TimeZone /*c*/\n< Z\n"
	for name, opts := range map[string][]option{"postgres": nil, "dsql": {asDSQL, fastReplay}} {
		for _, c := range []struct {
			state  string
			faults int // so many of Sluice's Queries fail with that SQLSTATE
			lost   int // backends that are given up, and another is taken
			told   string
		}{
			{state: "57014", faults: 5, lost: 1}, {state: "57014", faults: 4}, {state: "57014", faults: 15, lost: 2, told: "57014"},
			{state: "53200", faults: 1, lost: 1}, {state: "57P03", faults: 2, lost: 2}, {state: "XX000", faults: 3, lost: 2, told: "XX000"},
			{state: "40001", faults: 1}, {state: "42501", faults: 1, told: "42501"},
		} {
			t.Run(fmt.Sprint(name, ", ", c.state, " times ", c.faults), func(t *testing.T) {
				t.Parallel()
				var p ownPlanter
				s := startSluice(t, pg, append([]option{p.option, maxOpen(3)}, opts...)...)
				client, direct := dialRaw(t, s.addr), dialRaw(t, pg.addr)
				for _, c := range []*rawClient{client, direct} {
					c.say(t, "Q SET TimeZone = 'Asia/Tokyo' /*c*/\n< Z\n")
				}
				perform(t, s.addr, "Q SELECT 1 /*c*/\n< Z\n") // the backend has the server's own again
				faults := c.faults
				p.plants(func(message []byte) (d ownFault) {
					if faults > 0 && strings.Contains(string(message), "SET timezone TO") {
						faults--
						d.refusal, d.message = c.state, "planted"
					}
					return d
				})
				got, want := client.play(t, script), direct.play(t, script)
				told := strings.Contains(got, "C="+c.told+" ")
				if c.told == "" && got != want || c.told != "" && !told {
					t.Errorf("got %s\nwant %s%s", got, want, c.told)
				}
				p.plants(nil)
				if faults > 0 {
					t.Errorf("%d of %d faults have not struck", faults, c.faults)
				}
				if lost := s.count(t, "dsql_backends_lost_total", "idle"); int(lost) != c.lost {
					t.Errorf("%v backends were given up, want %d", lost, c.lost)
				}
				client.say(t, "Q ROLLBACK /*c*/\n< Z\n")
				if got := client.say(t, "Q SHOW TimeZone /*c*/\n< Z\n"); !strings.Contains(got, "Asia/Tokyo") {
					t.Errorf("behind it: %s", got)
				}
			})
		}
	}
}
