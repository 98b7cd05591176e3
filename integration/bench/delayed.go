package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/lib/pq" // database/sql's driver "postgres"
)

const (
	idDelayed = "delayed"

	// oneWay is the delay of the relay in one direction. A round trip of 4 ms is about what a cluster over three buildings
	// of one region takes to answer.
	oneWay = 2 * time.Millisecond
	// warmTransactions is the number of transactions before a sample, in which drivers prepare and describe their
	// statements.
	warmTransactions = 20

	selectForUpdate = "SELECT abalance FROM pgbench_accounts WHERE aid = $1 FOR UPDATE"
	updateAccount   = "UPDATE pgbench_accounts SET abalance = $2 WHERE aid = $1"
)

// driverSession is a driver's connection that can run Temporal's typical transaction: BEGIN; SELECT FOR UPDATE; UPDATE;
// COMMIT.
type driverSession interface {
	transact(ctx context.Context, aid int) error
	close(ctx context.Context) error
}

// drivers are the drivers that Temporal can be built with, by name.
var drivers = []struct {
	name string
	open func(ctx context.Context, dsn string) (driverSession, error)
}{
	{"lib/pq", openPQ},
	{"pgx", openPGX},
}

// measureDelayed measures transactions against a server with a delay of 2 ms each way.
func (b *bench) measureDelayed(ctx context.Context, r *report) error {
	if !b.isSelected(idDelayed) {
		return nil
	}
	// The two ways to the server have separate relays, which count the round trips of each way.
	var relays [2]*delayRelay
	for i := range relays {
		relay, err := newDelayRelay(b.rig.postgres.Address(), oneWay)
		if err != nil {
			return err
		}
		defer relay.close()
		go relay.serve() // ends with close
		relays[i] = relay
	}
	s, err := b.rig.launchSluice(ctx, relays[1].port(), nil)
	if err != nil {
		return err
	}
	defer s.Stop(syscall.SIGTERM, stopGrace)
	paths := []serverPath{{direct, relays[0].port(), relays[0]}, {sluice, s.Port, relays[1]}}

	type values struct{ rate, trips []float64 }
	taken := make([]map[string]*values, len(drivers))
	for i := range taken {
		taken[i] = map[string]*values{direct: {}, sluice: {}}
	}
	for round := range b.rounds {
		for i, d := range drivers {
			said := make(map[string]string)
			for _, j := range rand.Perm(len(paths)) {
				p := paths[j]
				rate, trips, err := b.runTransactions(ctx, d.open, p)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					b.recordFailure(idDelayed+" "+d.name, p.name, err)
					rate, trips = missingValue, missingValue
				}
				v := taken[i][p.name]
				v.rate, v.trips = append(v.rate, rate), append(v.trips, trips)
				said[p.name] = fmt.Sprintf("%s %s/s in %.2f round trips", p.name, formatNumber(rate), trips)
			}
			b.printProgress(round, d.name+" 2 ms away", said[direct], said[sluice])
		}
	}
	for i, d := range drivers {
		viaSluice, without := taken[i][sluice], taken[i][direct]
		r.Delayed = append(r.Delayed, delayedResult{
			Driver: d.name,
			Direct: driverFigures{Rate: summarize(without.rate), RoundTrips: summarize(without.trips)},
			Sluice: driverFigures{Rate: summarize(viaSluice.rate), RoundTrips: summarize(viaSluice.trips)},
			Ratio:  summarize(roundRatios(viaSluice.rate, without.rate)),
		})
	}
	return nil
}

// serverPath is a way to the distant server: directly or through Sluice. relay is the delayRelay (proxy that delays
// every byte) on this way.
type serverPath struct {
	name  string
	port  int
	relay *delayRelay
}

// runTransactions runs transactions one after the other for the length of a sample. It returns their rate and the
// number of round trips for each.
func (b *bench) runTransactions(ctx context.Context, open func(context.Context, string) (driverSession, error), p serverPath) (rate, trips float64, err error) {
	dsn := url.URL{Scheme: "postgres", User: url.User(b.rig.postgres.User), Path: "/" + database,
		Host: loopback + ":" + strconv.Itoa(p.port), RawQuery: "sslmode=disable"}
	s, err := open(ctx, dsn.String())
	if err != nil {
		return 0, 0, err
	}
	defer s.close(ctx)
	account := func() int { return 1 + rand.IntN(scale*100_000) }
	for range warmTransactions {
		if err := s.transact(ctx, account()); err != nil {
			return 0, 0, err
		}
	}
	count, before, began := 0, p.relay.trips.Load(), time.Now()
	for time.Since(began) < time.Duration(b.seconds)*time.Second {
		if err := s.transact(ctx, account()); err != nil {
			return 0, 0, err
		}
		count++
	}
	elapsed := time.Since(began).Seconds()
	return float64(count) / elapsed, float64(p.relay.trips.Load()-before) / float64(count), nil
}

type pqSession struct{ db *sql.DB }

func openPQ(_ context.Context, dsn string) (driverSession, error) {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // dialled by the first transaction
	return pqSession{db}, nil
}

func (s pqSession) close(context.Context) error { return s.db.Close() }

func (s pqSession) transact(ctx context.Context, aid int) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after a commit
	var balance int
	if err := tx.QueryRowContext(ctx, selectForUpdate, aid).Scan(&balance); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, updateAccount, aid, balance+1); err != nil {
		return err
	}
	return tx.Commit()
}

type pgxSession struct{ conn *pgx.Conn }

func openPGX(ctx context.Context, dsn string) (driverSession, error) {
	conn, err := pgx.Connect(ctx, dsn) // its default mode caches prepared statements
	return pgxSession{conn}, err
}

func (s pgxSession) close(ctx context.Context) error { return s.conn.Close(ctx) }

func (s pgxSession) transact(ctx context.Context, aid int) error {
	tx, err := s.conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) // nothing after a commit
	var balance int
	if err := tx.QueryRow(ctx, selectForUpdate, aid).Scan(&balance); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, updateAccount, aid, balance+1); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
