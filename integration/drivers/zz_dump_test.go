package drivers
import ("testing";"context";"os";"fmt")
func TestDump(t *testing.T) {
	routes := openRoutes(t)
	scenarios := loadScenarios(t)
	for _, c := range append(append([]client{psql()}, goClients(scenarios)...), programs()...) {
		for _, r := range routes {
		f, _ := os.Create("/tmp/dump/"+c.name+"."+r.name)
		for _, p := range c.play(context.Background(), t, r) { fmt.Fprintf(f, "== %s %v\n%s\n", p.name, p.needs, p.transcript) }
		f.Close()
		}
	}
}
