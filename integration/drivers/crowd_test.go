package drivers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

const (
	// crowdSize is many times the number of backends.
	crowdSize = 6 * backends
	// crowdRounds is how many transactions each of them runs.
	crowdRounds = 8
)

// crowd lets many sessions run transactions of prepared statements at once.
// Their statements differ while drivers give them the same names, so whoever
// got another's would notice. Written down is what went wrong, and the sum.
func (d driver) crowd(ctx context.Context, dsn, table string) string {
	var w transcript
	first, err := d.open(ctx, dsn)
	if err != nil {
		w.fail(err)
		return w.String()
	}
	defer first.close()
	first.query(ctx, &w, "CREATE TABLE "+table+" (id int PRIMARY KEY, v int NOT NULL)", false, nil)
	first.query(ctx, &w, fmt.Sprintf("INSERT INTO %s SELECT i, 0 FROM generate_series(1, %d) i", table, crowdSize), false, nil)

	faults := make([]transcript, crowdSize)
	var wg sync.WaitGroup
	for i := range crowdSize {
		wg.Go(func() { d.crowdMember(ctx, &faults[i], dsn, table, i+1) })
	}
	wg.Wait()
	for i := range faults {
		w.WriteString(faults[i].String())
	}
	first.query(ctx, &w, "SELECT count(*), sum(v), min(v), max(v) FROM "+table, false, nil)
	return w.String()
}

// crowdMember writes down only what should not have been.
func (d driver) crowdMember(ctx context.Context, w *transcript, dsn, table string, id int) {
	s, err := d.open(ctx, dsn)
	if err != nil {
		w.fail(err)
		return
	}
	defer s.close()
	for round := range crowdRounds {
		var heard transcript
		add := fmt.Sprintf("SELECT $1::int + %d AS sum", id)
		s.query(ctx, &heard, "BEGIN", false, nil)
		s.query(ctx, &heard, add, true, []any{int64(1000 * round)})
		s.query(ctx, &heard, "UPDATE "+table+" SET v = v + 1 WHERE id = $1", true, []any{int64(id)})
		s.query(ctx, &heard, "COMMIT", false, nil)
		s.query(ctx, &heard, add, true, []any{int64(round)})
		text := heard.String()
		sums := []string{fmt.Sprintf("(%d)", 1000*round+id), fmt.Sprintf("(%d)", round+id)}
		if strings.Contains(text, "!") || slices.ContainsFunc(sums, func(sum string) bool { return !strings.Contains(text, sum) }) {
			w.line("client %d, round %d, want the sums %v:\n%s", id, round, sums, text)
			return
		}
	}
}
