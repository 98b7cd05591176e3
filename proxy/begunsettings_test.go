package proxy_test

import (
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// A BEGIN that comes without a Sync between takes the SET in front of it into its block:
// however that block fails, the client is told that the SET is undone.
func TestSettingsThatABeginTakesIn(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	routes := map[string]*sluice{"": startSluice(t, pg, answering, maxOpen(1)), "replay": startSluice(t, pg, answering, maxOpen(1), fastReplay)}
	const bound = "\nB - | -\nE -\n"
	n := 0
	for setting, changes := range map[string][]string{
		"application_name": {"SET application_name = 'x'", "SET application_name TO DEFAULT", "RESET application_name", "SET LOCAL application_name = 'x'"},
		"TimeZone":         {"SET TimeZone = 'Europe/Berlin'", "RESET TimeZone", "SET TimeZone TO DEFAULT", "RESET ALL"},
	} {
		before := "tell " + setting + "\nQ SET application_name = 'before'\n< Z\nQ SET TimeZone = 'Asia/Tokyo'\n< Z\n"
		after := "Q ROLLBACK\n< Z\nQ SHOW " + setting + "\n< Z\n"
		for _, change := range changes {
			for _, begin := range []string{"Q BEGIN READ WRITE\nS\n< Z\n< Z\n", "Q BEGIN\n< Z\n", "P - | BEGIN" + bound + "S\n< Z\n", "P - | BEGIN" + bound, "Q BEGIN; SELECT 1\n< Z\n"} {
				for _, fails := range []string{"B - | nosuch\nE -\nS\n< Z\n", "Q SELECT 1/0\n< Z\n", "P - | SELECT 1/0" + bound + "S\n< Z\n", "E nosuch\nS\n< Z\n", "P - | EXECUTE nosuch" + bound + "S\n< Z\n",
					"Q SELEC 1\n< Z\n", "Q SET application_name = 'y'; SELECT 1/0\n< Z\n"} {
					if n++; n%proxy.OneIn != 0 {
						continue
					}
					script := before + "P - | " + change + bound + begin + fails + after
					want := perform(t, pg.addr, script)
					for route, s := range routes {
						if got := perform(t, s.addr, script); got != want {
							t.Errorf("%s\n%s: %s", script, route, firstDifference(got, want))
						}
					}
				}
			}
		}
	}
}
