package dsqlsim_test

import (
	"database/sql"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/lib/pq"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// Stock drivers do their usual work, in every mode that they have.
func TestPgxModes(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int, v text)")
	for i, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		config, err := pgx.ParseConfig("host=" + endpoint)
		if err != nil {
			t.Fatal(err)
		}
		config.Config = *c.config(t)
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(deadline(t), config)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			err := pgx.BeginFunc(deadline(t), conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(deadline(t), "INSERT INTO t VALUES ($1, $2)", i, mode.String())
				return err
			})
			if err != nil {
				t.Errorf("%s: %v", mode, err)
			}
		}
		var n int
		if err := conn.QueryRow(deadline(t), "SELECT count(*) FROM t WHERE id = $1 AND v = $2", i, mode.String()).Scan(&n); err != nil || n != 2 {
			t.Errorf("%s: %d rows, %v", mode, n, err)
		}
		batch := &pgx.Batch{}
		batch.Queue("SELECT 1")
		batch.Queue("SAVEPOINT s")
		batch.Queue("SELECT 2")
		results := conn.SendBatch(deadline(t), batch)
		_, first := results.Exec()
		_, second := results.Exec()
		if first == nil {
			first = second
		}
		if e := pgError(t, first); e.Code != "0A000" {
			t.Errorf("%s: batch: %v", mode, e)
		}
		_ = results.Close()
		if err := conn.Close(deadline(t)); err != nil {
			t.Errorf("%s: close: %v", mode, err)
		}
	}
}

func TestLibPQ(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int, v text)")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, c.CAPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	if block, _ := pem.Decode(c.CAPEM()); block == nil {
		t.Fatal("CAPEM is not PEM")
	}
	for _, binary := range []string{"no", "yes"} {
		connector, err := pq.NewConnector("host=" + endpoint + " port=5432 user=admin dbname=postgres sslmode=verify-full sslrootcert=" + ca +
			" binary_parameters=" + binary + " password='" + adminToken(t) + "'")
		if err != nil {
			t.Fatal(err)
		}
		connector.Dialer(toAddress{c.address})
		db := sql.OpenDB(connector)
		tx, err := db.BeginTx(deadline(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO t VALUES ($1, $2)", 1, binary); err != nil {
			t.Error(err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		var n int
		if err := db.QueryRow("SELECT count(*) FROM t WHERE v = $1", binary).Scan(&n); err != nil || n != 1 {
			t.Errorf("%d rows, %v", n, err)
		}
		_, err = db.Exec("TRUNCATE t")
		if e, ok := errors.AsType[*pq.Error](err); !ok || e.Code != "0A000" {
			t.Errorf("TRUNCATE: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// psql and pgbench find the endpoint by name and verify it; libpq's own TLS.
func TestPsqlAndPgbench(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 1000) g")
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, c.CAPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script.sql")
	if err := os.WriteFile(script, []byte("\\set id random(1, 1000)\nBEGIN;\nSELECT v FROM t WHERE id = :id;\nINSERT INTO t VALUES (:id + 1000, 1) ON CONFLICT DO NOTHING;\nEND;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(c.address)
	if err != nil {
		t.Fatal(err)
	}
	conninfo := "host=" + endpoint + " hostaddr=127.0.0.1 port=" + port + " user=admin dbname=postgres sslmode=verify-full sslrootcert=" + ca
	run := func(program string, args ...string) string {
		cmd := pgtest.Shared(t).Program(program, args...)
		cmd.Env = append(cmd.Env, "PGPASSWORD="+adminToken(t))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
		return string(out)
	}
	if out := run("psql", "-X", conninfo, "-c", "SHOW server_version", "-c", `\d t`); !strings.Contains(out, "16.15") || !strings.Contains(out, "t_pkey") {
		t.Errorf("psql: %s", out)
	}
	var working sync.WaitGroup
	for _, protocol := range []string{"simple", "extended", "prepared"} {
		working.Go(func() {
			out := run("pgbench", "-n", "-M", protocol, "-f", script, "-c", "4", "-t", "50", "--max-tries", "20", conninfo)
			if !strings.Contains(out, "200/200") {
				t.Errorf("pgbench %s: %s", protocol, out)
			}
		})
	}
	working.Wait()
}

// toAddress dials one address whatever it is asked for.
type toAddress struct{ address string }

func (d toAddress) Dial(network, _ string) (net.Conn, error) { return net.Dial(network, d.address) }

func (d toAddress) DialTimeout(network, _ string, limit time.Duration) (net.Conn, error) {
	return net.DialTimeout(network, d.address, limit)
}
