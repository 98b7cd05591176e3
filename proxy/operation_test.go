package proxy_test

import (
	"slices"
	"testing"
)

// operations are the values of a metric's label operation that count something.
func (s *sluice) operations(t *testing.T, name string) (seen []string) {
	t.Helper()
	for labels, n := range s.series(t, name) {
		if n > 0 {
			seen = append(seen, labels["operation"])
		}
	}
	slices.Sort(seen)
	return slices.Compact(seen)
}

// A transaction is named after the first of its statements that locks or writes.
//
// Feature: dsql-locking-compatibility, Property 7: Observability: retries,
// latencies and conflicts are counted per operation.
func TestOperations(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+"CREATE TABLE shards (id int); INSERT INTO shards VALUES (1)")
	for _, test := range []struct {
		name, script, operation string
	}{
		{"a read", "Q SELECT * FROM shards\n< Z\n", "select_shards"},
		{"a write", "Q INSERT INTO shards VALUES (2)\n< Z\n", "insert_shards"},
		{"extended", "P - | UPDATE shards SET id = $1\nB - | - | 3\nE -\nS\n< Z\n", "update_shards"},
		{"a lock behind a read", "Q BEGIN\n< Z\nQ SELECT * FROM late\n< Z\nQ SELECT * FROM shards FOR UPDATE\n< Z\nQ DELETE FROM late\n< Z\nQ COMMIT\n< Z\n", "select_shards"},
		{"reads", "Q BEGIN\n< Z\nQ SELECT * FROM late\n< Z\nQ SELECT * FROM shards\n< Z\nQ COMMIT\n< Z\n", "select_late"},
		{"in one string", "Q BEGIN; SELECT * FROM late; DELETE FROM late; INSERT INTO shards VALUES (1); COMMIT\n< Z\n", "delete_late"},
		{"nothing", "Q BEGIN READ ONLY\n< Z\nQ COMMIT\n< Z\n", "other"},
		{"not the one before", "Q SELECT * FROM late\n< Z\nQ BEGIN\n< Z\nQ COMMIT\n< Z\nQ SELECT * FROM late\n< Z\n", "select_late"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startSluice(t, pg, fastReplay)
			perform(t, s.addr, test.script)
			waitFor(t, "the end of the transaction", func() bool { return s.backends.Stats().InUse == 0 })
			for _, name := range []string{"dsql_operation_duration_seconds", "dsql_retry_attempts_histogram"} {
				if got := s.operations(t, name); !slices.Equal(got, []string{test.operation}) {
					t.Errorf("%s: %q, want %q", name, got, test.operation)
				}
			}
			if got := s.operations(t, "dsql_active_transactions"); got != nil {
				t.Errorf("still active: %q", got)
			}
		})
	}
	s := startSluice(t, pg, fastReplay)
	perform(t, s.addr, "Q SELECT nosuch FROM late\n< Z\nQ SELECT * FROM nosuch\n< Z\nQ DELETE FROM nosuch\n< Z\n")
	if got := s.operations(t, "dsql_errors_total"); !slices.Equal(got, []string{"other"}) {
		t.Errorf("names of statements that have never succeeded: %q", got)
	}
	perform(t, s.addr, "Q SELECT * FROM shards\n< Z\nQ UPDATE shards SET id = 1\n< Z\n")
	stumbles(t, pg, true)
	perform(t, s.addr, "Q UPDATE shards SET id = stumble(1)\n< Z\nQ DELETE FROM shards WHERE id = 7\n< Z\nQ SELECT nosuch FROM shards\n< Z\n")
	for name, want := range map[string][]string{
		"dsql_tx_retries_total": {"update_shards"}, "dsql_tx_conflicts_total": {"update_shards"},
		"dsql_condition_failed_total": {"delete_shards"}, "dsql_errors_total": {"other", "select_shards", "update_shards"},
	} {
		if got := s.operations(t, name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
