package advisory

import (
	"testing"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// What a session with locks may send, by its state.
func TestSituation(t *testing.T) {
	planner, err := rewrite.New(rewrite.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	unread := &rewrite.Plan{Kind: rewrite.Unknown}
	for _, c := range []struct {
		at      Situation
		sql     string // "": a text that is not parsed
		extend  bool
		refused *wire.Error
	}{
		{sql: "SELECT 1"},
		{sql: "INSERT INTO t VALUES (1)"},
		{sql: "BEGIN; INSERT INTO t VALUES (1); COMMIT", refused: ErrSeveralWrites},
		{sql: "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)"},
		{sql: "BEGIN; SELECT 1"},
		{sql: "CREATE TABLE t (a int)", extend: true},
		{sql: "", refused: errUnread},
		{at: Situation{Lost: true}, sql: "SELECT 1", refused: ErrLost},
		{at: Situation{Lost: true, FailedBlock: true}, sql: "SELECT 1"},
		{at: Situation{Lost: true, FailedBlock: true}, sql: "ROLLBACK"},
		{at: Situation{Lost: true, FailedBlock: true}, sql: "ROLLBACK; SELECT 1", refused: ErrLost},
		{at: Situation{FailedBlock: true}, sql: "", refused: errUnread},
		{at: Situation{FailedBlock: true}, sql: "CREATE TABLE t (a int)"},
		{at: Situation{FailedBlock: true}, sql: "ROLLBACK; CREATE TABLE t (a int)", extend: true},
		{at: Situation{DDL: true}, sql: "SELECT 1"},
		{at: Situation{DDL: true}, sql: "COMMIT", extend: true},
		{at: Situation{DDL: true}, sql: "INSERT INTO t VALUES (1)", extend: true},
		{at: Situation{InternalBlock: true}, sql: "INSERT INTO t VALUES (1)"},
		{at: Situation{InternalBlock: true}, sql: "COMMIT", refused: errGroup},
		{at: Situation{InternalBlock: true}, sql: "BEGIN", refused: errGroup},
		{at: Situation{InternalBlock: true, Lost: true}, sql: "BEGIN", refused: ErrLost},
	} {
		plan := unread
		if c.sql != "" {
			plan = planner.Plan([]byte(c.sql))
		}
		if extend, refused := c.at.Check(plan); extend != c.extend || refused != c.refused {
			t.Errorf("%+v, %q: extend %v, %v", c.at, c.sql, extend, refused)
		}
	}
}
