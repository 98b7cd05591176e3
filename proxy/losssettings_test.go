package proxy_test

import (
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
