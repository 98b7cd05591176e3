package rewriting

import (
	"context"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// heldChild is held, for the tables that constraints are added to.
var heldChild = strings.NewReplacer("FROM book ", "FROM child ", "FROM keyless ", "FROM empty ").Replace(held)

// withDefaultsHeld are columns with a default that are held to more.
var withDefaultsHeld = []string{
	"ALTER TABLE child ADD COLUMN z int DEFAULT 1 NOT NULL",
	"ALTER TABLE child ADD COLUMN y int NOT NULL DEFAULT 1 CHECK (y > 0)",
	"ALTER TABLE child ADD x int DEFAULT 0 CHECK (x > 0)",
	`ALTER TABLE child ADD "Odd ""x" text DEFAULT 'it''s' CONSTRAINT "Odd ""c" CHECK (length("Odd ""x") > id - 4 AND "Odd ""x" <> '"Odd ""x"') CHECK ("Odd ""x" <> 'other')`,
	"ALTER TABLE child ADD COLUMN w int DEFAULT 1 REFERENCES parent",
	"ALTER TABLE child ADD COLUMN v int DEFAULT 9 REFERENCES parent (id) ON DELETE CASCADE",
	"ALTER TABLE child ADD COLUMN v int DEFAULT 2 NOT NULL CONSTRAINT v_parent REFERENCES public.parent (id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED",
	"ALTER TABLE child ADD COLUMN u int DEFAULT 1 UNIQUE",
	"ALTER TABLE empty ADD COLUMN u int DEFAULT 1 UNIQUE",
	"ALTER TABLE empty ADD COLUMN m int DEFAULT 1 CONSTRAINT n NOT NULL",
	"ALTER TABLE empty ADD COLUMN k int CONSTRAINT n NOT NULL DEFAULT 2", // the name of the one before is forgotten
	"ALTER TABLE empty ADD COLUMN j int CONSTRAINT n NOT NULL CHECK (j > 0)",
	"ALTER TABLE empty ADD COLUMN t varchar(9) CONSTRAINT nn NOT NULL DEFAULT 'x' CONSTRAINT t_once UNIQUE DEFERRABLE CHECK (t > 'a' AND t < 'z')",
	"ALTER TABLE child ADD COLUMN s bool DEFAULT false CHECK (s OR id > 0) NOT NULL",
	"ALTER TABLE child ADD COLUMN IF NOT EXISTS s bool DEFAULT false CHECK (s)",
	"ALTER TABLE child ADD COLUMN s bool DEFAULT false CHECK (s)",
	"ALTER TABLE child ADD COLUMN r int DEFAULT 5 CHECK (nothing > 0)",
	"ALTER TABLE child ADD COLUMN r int DEFAULT 5 REFERENCES nothing",
	"ALTER TABLE child ADD COLUMN r int DEFAULT 'x' CHECK (r > 0)",
	"ALTER TABLE child ADD COLUMN r int CHECK (r / 0 > 0) DEFAULT 5",
	"ALTER TABLE child ADD COLUMN r smallint NOT NULL DEFAULT 40000", // which no row can hold
	"ALTER TABLE child ADD COLUMN r varchar(2) DEFAULT 'abc'",
	"ALTER TABLE empty ADD COLUMN r smallint DEFAULT 40000",
	"ALTER TABLE empty ADD COLUMN r varchar(2) DEFAULT 'abc'",
}

// A column with a default and constraints is added as in PostgreSQL, but for NOT NULL, which is a
// CHECK; or with PostgreSQL's error, and nothing of it stays.
func TestDefaultsWithConstraintsAsInPostgreSQL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_CARRY_OUT": "all"})
	seed := uint64(time.Now().UnixNano())
	t.Log("seed ", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	made := func() string {
		sql := "ALTER TABLE " + pick("child", "child", "empty") + " ADD COLUMN " + pick("p", "q", "a") + " int"
		of := []string{" DEFAULT " + pick("1", "2", "9", "'3'", "-1"), pick("", " NOT NULL", " CONSTRAINT n NOT NULL"), pick("", " UNIQUE", " CONSTRAINT once UNIQUE DEFERRABLE"),
			pick("", " CHECK (id > 0)", " CHECK (id < 3)", " CONSTRAINT c CHECK (a > 0)"), pick("", " REFERENCES parent", " REFERENCES parent (id) ON UPDATE CASCADE INITIALLY DEFERRED")}
		random.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		return sql + strings.Join(of, "")
	}
	values, all := regexp.MustCompile(`=\(.*?\)`), 0
	for n, way := range clients {
		for _, database := range []string{"postgres", "plain"} {
			pg.SQL(t, database, constrained)
		}
		statements, done := withDefaultsHeld, 0
		for range 12 {
			statements = append(statements[:len(statements):len(statements)], made())
		}
		for i, sql := range statements {
			if n > 0 && i%5 != n%5 { // the first has them all
				continue
			}
			wantOut, wantErr := way.run(ctx, pg.DSN("plain"), sql, nil)
			out, err := way.run(ctx, sluice.DSN("postgres"), sql, nil)
			same := values.ReplaceAllString(whole(err), "") == values.ReplaceAllString(whole(wantErr), "")
			// Of several constraints that rows are against one is told.
			if several := i >= len(withDefaultsHeld); out != wantOut || !same && !(several && err != nil && wantErr != nil) {
				t.Errorf("%s, %s:\n got %q %s (%s)\nwant %q %s", way.name, sql, out, whole(err), hintOf(err), wantOut, whole(wantErr))
			}
			if got, want := pg.SQL(t, "postgres", heldChild), pg.SQL(t, "plain", heldChild); got != want {
				t.Fatalf("%s, %s:\n%s", way.name, sql, differing(got, want))
			}
			if err == nil {
				done++
			}
		}
		if t.Logf("%s: %d statements succeed", way.name, done); n == 0 && done < 8 {
			t.Errorf("%s: only %d statements succeed", way.name, done)
		}
		all += done
	}
	if all < 12 {
		t.Errorf("only %d statements succeed", all)
	}
}
