package bytea

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// sabotages change a text as a wrong rule could; tells is a part of what is found then.
var sabotages = []struct {
	name  string
	plan  func(string) string
	tells string
}{
	{"another order", func(sql string) string { return strings.ReplaceAll(sql, " DESC", "") }, "order: "},
	{"another operator", func(sql string) string { return strings.ReplaceAll(sql, " < ", " <= ") }, "rows: "},
	{"another name", func(sql string) string { return strings.Replace(sql, "coalesce(", "nullif(", 1) }, "columns: "},
	{"a parameter of another type", func(sql string) string { return strings.Replace(sql, "encode($1,", "encode($1::text::bytea,", 1) }, "parameters: "},
	{"an error is lost", func(sql string) string {
		if strings.HasPrefix(sql, "INSERT") && !strings.Contains(sql, " ON CONFLICT") {
			return strings.Replace(sql, " RETURNING ", " ON CONFLICT DO NOTHING RETURNING ", 1)
		}
		return sql
	}, "stock: 23505"},
	{"rows are kept", func(sql string) string {
		if strings.HasPrefix(sql, "UPDATE") {
			return strings.Replace(sql, " WHERE ", " WHERE false AND ", 1)
		}
		return sql
	}, "tag: "},
	{"other values are stored", func(sql string) string { return strings.Replace(sql, `('\x61'`, `('\x62'`, 1) }, "leaves in "},
}

// The oracle finds what a wrong rule does.
func TestSabotage(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	a, b := sessionIn(t, pg), sessionIn(t, pg)
	for _, s := range sabotages {
		t.Run(s.name, func(t *testing.T) {
			o := &Oracle{Statements: perWorld, ShrinkTries: 20, MaxDifferences: 1000, Begin: func(ctx context.Context, w *TestSchema) (*Client, *Client, error) {
				sabotaged := func(sql string) (string, error) { return s.plan(sql), nil }
				return &Client{Conn: a}, &Client{Conn: b, Plan: sabotaged}, errors.Join(makeWorld(ctx, a, w), makeWorld(ctx, b, w))
			}}
			for n := range uint64(40) {
				if err := o.RunSchema(t.Context(), 1, n); err != nil {
					t.Fatal(err)
				}
				for _, m := range o.Tally.Mismatches {
					if strings.Contains(m, s.tells) {
						return
					}
				}
			}
			t.Errorf("not found in %d statements: %d other differences", o.Tally.Statements, len(o.Tally.Mismatches))
		})
	}
}
