package proxy_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

var (
	copyExtendedSeed  = flag.Uint64("copyextended.seed", 1, "the seed of TestCopyByExtended")
	copyExtendedCount = flag.Int("copyextended.count", 150, "how many programs TestCopyByExtended plays")
)

// copyProgram is a script of COPY FROM STDIN by the extended protocol: its data come behind a Sync, a Flush or
// neither, whole or not, among other statements. Data that the server refuses have an end: a Sync without one is
// either ignored or answered, by how far the server has read.
func copyProgram(r *rand.Rand, program int) string {
	var b strings.Builder
	row := program * 100
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for range 1 + r.IntN(3) {
		for range 1 + r.IntN(2) {
			text := "COPY copied FROM STDIN"
			if r.IntN(4) == 0 {
				row++
				text = []string{fmt.Sprintf("INSERT INTO copied VALUES (%d)", row), "INSERT INTO copied VALUES (1/0)"}[r.IntN(4)/3]
			}
			line("P - | %s", text)
			line("B - | -")
			line("E - %d", r.IntN(2))
			if r.IntN(3) == 0 {
				line("%s", []string{"H", "S"}[r.IntN(2)])
			}
			if text[0] != 'C' && r.IntN(4) > 0 {
				continue
			}
			ends := r.IntN(8) > 0
			for range r.IntN(3) {
				row++
				if value := fmt.Sprint(row); ends && r.IntN(4) == 0 {
					line(`d x%s\n`, value)
					// The server fails in front of this Sync. Its answer is the first one, and is heard.
					if heard := b.String(); r.IntN(2) == 0 && !strings.Contains(heard, "\nS") && !strings.Contains(heard, "INSERT") {
						line("S")
						line("< Z")
						ends = false
						break
					}
				} else {
					line(`d %s\n`, value)
				}
				if r.IntN(5) == 0 {
					line("H")
				}
			}
			if ends {
				line("%s", []string{"c", "c", "c", "f no"}[r.IntN(4)])
			}
		}
		line("S")
	}
	return b.String() + "c\nS\nQ SELECT 'end'\n< D C Z\n"
}

// What comes of a COPY FROM STDIN by the extended protocol is what PostgreSQL makes of it, wherever Flush and Sync are.
func TestCopyByExtended(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE copied (a int)")
	s := startSluice(t, pg)
	programs := []string{
		"P - | COPY copied FROM STDIN\nB - | -\nE -\nH\n< G\nd -1\\n\nc\nS\n< C Z\n",
		"P - | COPY copied FROM STDIN\nB - | -\nE -\nd -2\\n\nc\nS\n< C Z\n",
		"P - | COPY copied FROM STDIN\nB - | -\nE -\nH\n< G\nd -3\\n\nf no\nS\n< E Z\n",
		"P - | COPY copied FROM STDIN\nB - | -\nE -\nS\n< G\nd -4\\n\nS\nc\nS\n< C Z\n",
		"P - | COPY copied FROM STDIN\nB - | -\nE -\nS\n< G\nd x\\n\nS\n< E Z\nQ SELECT 1\n< Z\n",
		"P - | COPY copied FROM STDIN\nB - | -\nE -\nH\n< G\nd x\\n\nS\nS\n< E Z Z\nQ SELECT 1\n< Z\n",
		"Q BEGIN\n< Z\nP - | COPY copied FROM STDIN\nB - | -\nE -\nH\n< G\nd x\\n\nS\n< E Z\nQ SELECT 1\n< Z\nQ ROLLBACK\n< Z\n",
		"Q COPY copied FROM STDIN\n< G\nd x\\n\nS\n< E Z Z\nQ SELECT 1\n< Z\n",
		"Q COPY copied FROM STDIN\n< G\nd x\\n\nS\nS\n< E Z Z Z\nQ SELECT 1\n< Z\n",
	}
	for i := range *copyExtendedCount {
		programs = append(programs, copyProgram(rand.New(rand.NewPCG(*copyExtendedSeed, uint64(i))), i))
	}
	stored, ended := map[string]int{}, 0
	for i, program := range programs {
		got := dialRaw(t, s.addr).play(t, program)
		if strings.Contains(got, "TIMEOUT") {
			t.Fatalf("program %d of seed %d:\n%s", i, *copyExtendedSeed, got)
		}
		rows := pg.SQL(t, "postgres", "SELECT coalesce(string_agg(a::text, ' ' ORDER BY a), '-') FROM copied; TRUNCATE copied")
		want := dialRaw(t, pg.addr).play(t, program)
		if wanted := pg.SQL(t, "postgres", "SELECT coalesce(string_agg(a::text, ' ' ORDER BY a), '-') FROM copied; TRUNCATE copied"); got != want || rows != wanted {
			t.Fatalf("program %d of seed %d:\n got %s%s\nwant %s%s", i, *copyExtendedSeed, got, rows, want, wanted)
		} else if wanted != "-" {
			stored[wanted]++
		}
		if strings.Contains(want, "EOF") {
			ended++
		}
	}
	if *copyExtendedCount >= 100 && (len(stored) < *copyExtendedCount/10 || ended < 5) {
		t.Errorf("%d programs have stored rows, %d have ended their session", len(stored), ended)
	}
}
