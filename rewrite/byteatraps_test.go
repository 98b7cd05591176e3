package rewrite

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/bytea"
	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

var byteaTexts = flag.String("bytea.texts", "", "a file with statements over the tables of the traps, one a line, to be tried in their place")

// trapNames are the tables of the traps as a snapshot has them.
func trapNames() *schema.NameResolver {
	return schema.New([]schema.Relation{
		{Schema: "public", Name: "t", Columns: []schema.Column{{Name: "k", Mapped: true}, {Name: "n"}, {Name: "d"}, {Name: "u", Mapped: true}}},
		{Schema: "public", Name: "p", Columns: []schema.Column{{Name: "k"}, {Name: "n"}}},
		{Schema: "public", Name: "s", Columns: []schema.Column{{Name: "a"}, {Name: "k", Mapped: true}}},
		{Schema: "public", Name: "v", Columns: []schema.Column{{Name: "k"}, {Name: "n"}, {Name: "d"}, {Name: "u"}}},
	}).ResolverFor([]string{"public"})
}

// TestByteaTraps runs what a simple rewriting gets wrong in plain PostgreSQL as it is, and
// over mapped tables in the texts that are planned.
func TestByteaTraps(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t)
	stock, mapped := &bytea.Client{Conn: pg.Connect(t)}, &bytea.Client{Conn: pg.Connect(t)}
	for _, c := range []*bytea.Client{stock, mapped} {
		plan := planIn(t, trapNames(), ByteaHex)
		for _, text := range strings.Split(bytea.TrapTables, ";\n") {
			if c == mapped {
				planned, err := plan(text)
				if err != nil {
					t.Fatal(err)
				}
				text = planned
			}
			if _, err := c.Conn.Exec(t.Context(), text).ReadAll(); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	}
	mapped.Plan = planIn(t, trapNames(), ByteaHex)
	traps := bytea.Traps
	if *byteaTexts != "" {
		lines, err := os.ReadFile(*byteaTexts)
		if err != nil {
			t.Fatal(err)
		}
		traps = []bytea.Trap{{Name: "-bytea.texts", Texts: strings.Split(strings.TrimSpace(string(lines)), "\n"), Undone: true}}
	}
	for _, trap := range traps {
		differ, err := trap.FindDifferences(t.Context(), stock, mapped)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range differ {
			t.Errorf("%s: %s", trap, d)
		}
	}
}
