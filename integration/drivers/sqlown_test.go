package drivers

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/lib/pq"
)

// sqlOwn are scenarios of database/sql's own verbs.
var sqlOwn = []ownScenario{
	{"tx", nil, playTx},
	{"txserializable", []Feature{Serializable}, playSerializable},
}

// pqOwn are scenarios of lib/pq alone.
var pqOwn = []ownScenario{
	{"listener", []Feature{Listen}, playListener},
}

// base is the session of database/sql under a driver's.
func (s *sqlSession) base() *sqlSession { return s }

func underlying(s session) *sqlSession { return s.(interface{ base() *sqlSession }).base() }

// playTx uses sql.Tx: its own BEGIN, statements moved into it, its options.
func playTx(ctx context.Context, w *transcript, s session, table string) {
	conn := underlying(s).conn
	s.query(ctx, w, "CREATE TABLE "+table+" (id int PRIMARY KEY, v text)", false, nil)
	insert, err := conn.PrepareContext(ctx, "INSERT INTO "+table+" VALUES ($1, $2)")
	if err != nil {
		w.fail(err)
		return
	}
	defer insert.Close()
	in := func(opts *sql.TxOptions, end func(*sql.Tx) error, ids ...int) {
		w.line("transaction %+v", opts)
		tx, err := conn.BeginTx(ctx, opts)
		if err != nil {
			w.fail(err)
			return
		}
		for _, id := range ids {
			if _, err := tx.StmtContext(ctx, insert).ExecContext(ctx, id, fmt.Sprint("v", id)); err != nil {
				w.fail(err)
			}
		}
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n); err != nil {
			w.fail(err)
		}
		w.line("%d rows", n)
		if err := end(tx); err != nil {
			w.fail(err)
		}
	}
	in(nil, (*sql.Tx).Commit, 1, 2)
	in(nil, (*sql.Tx).Rollback, 3)
	in(nil, (*sql.Tx).Commit, 4, 1) // the second fails
	in(nil, (*sql.Tx).Rollback, 1)
	in(&sql.TxOptions{ReadOnly: true}, (*sql.Tx).Commit)
	in(&sql.TxOptions{ReadOnly: true}, (*sql.Tx).Rollback, 5)
	in(&sql.TxOptions{Isolation: sql.LevelRepeatableRead}, (*sql.Tx).Commit, 6)
	s.query(ctx, w, "SELECT * FROM "+table+" ORDER BY id", false, nil)
}

// playSerializable wants a level that DSQL does not have.
func playSerializable(ctx context.Context, w *transcript, s session, _ string) {
	tx, err := underlying(s).conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		w.fail(err)
		return
	}
	var level string
	if err := tx.QueryRowContext(ctx, "SHOW transaction_isolation").Scan(&level); err != nil {
		w.fail(err)
	}
	w.line("%s, %v", level, tx.Commit())
}

// playListener is lib/pq's Listener, which has a connection of its own and
// nobody who reads answers while it waits.
func playListener(ctx context.Context, w *transcript, s session, table string) {
	connected := make(chan pq.ListenerEventType, 10)
	l := pq.NewListener(s.(*pqSession).dsn, time.Second, time.Second, func(e pq.ListenerEventType, _ error) { connected <- e })
	defer l.Close()
	// Asked earlier, it would connect again and again where LISTEN is refused.
	if e := <-connected; e != pq.ListenerEventConnected {
		w.line("! %v", e)
		return
	}
	if err := l.Listen(table); err != nil {
		w.fail(err)
		return
	}
	for i := range 3 {
		s.query(ctx, w, fmt.Sprintf("NOTIFY %s, 'payload %d'", table, i), false, nil)
		select {
		case n := <-l.Notify:
			w.line("* %s %s", n.Channel, n.Extra)
		case <-ctx.Done():
			w.line("! nothing heard")
		}
	}
	w.line("ping %v, unlisten %v", l.Ping(), l.Unlisten(table))
}
