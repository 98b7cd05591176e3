package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/proxy"
)

func TestDatabaseNames(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE DATABASE names")
	listed := func(items ...string) option {
		return configure(func(c *proxy.Config) { c.Databases = items })
	}
	for _, test := range []struct {
		name    string
		addr    string
		asked   string
		arrives string // "" is a refusal
	}{
		{"any", startSluice(t, pg).addr, "whatever", "postgres"},
		{"listed", startSluice(t, pg, listed("app", "web=postgres")).addr, "app", "postgres"},
		{"mapped", startSluice(t, pg, listed("app", "web=postgres")).addr, "web", "postgres"},
		{"not listed", startSluice(t, pg, listed("app")).addr, "postgres", ""},
		{"own", startSluice(t, pg, sessionPairing).addr, "names", "names"},
		{"own, mapped", startSluice(t, pg, sessionPairing, listed("app=names", "postgres")).addr, "app", "names"},
		{"own, listed", startSluice(t, pg, sessionPairing, listed("app=names", "postgres")).addr, "postgres", "postgres"},
		{"own, not listed", startSluice(t, pg, sessionPairing, listed("app=names")).addr, "names", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			host, port, _ := strings.Cut(test.addr, ":")
			conn, err := pgconn.Connect(context.Background(), fmt.Sprintf("host=%s port=%s user=postgres dbname=%s sslmode=disable", host, port, test.asked))
			if test.arrives == "" {
				var refused *pgconn.PgError
				if !errors.As(err, &refused) || refused.Code != "3D000" || refused.Severity != "FATAL" {
					t.Errorf("got %v, want 3D000", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			r := conn.ExecParams(context.Background(), "SELECT current_database()", nil, nil, nil, nil).Read()
			if r.Err != nil || string(r.Rows[0][0]) != test.arrives {
				t.Errorf("in %q (%v), want %s", r.Rows, r.Err, test.arrives)
			}
		})
	}
}

func TestDatabaseNamesThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pairing proxy.PairingMode
		items   []string
		want    string // "" is valid
	}{
		{proxy.Transaction, []string{"a", "b=postgres"}, ""},
		{proxy.Transaction, []string{"a=b"}, `"a=b": every backend is connected to "postgres"`},
		{proxy.Transaction, []string{""}, "want a name"},
		{proxy.Session, []string{"a=b", "b"}, ""},
		{proxy.Session, []string{"a=b", "a=c"}, "twice"},
		{proxy.Session, []string{"a="}, "want a name"},
		{proxy.Transaction, []string{"a=schema:x", "b_*=schema:*", "postgres"}, ""},
		{proxy.Transaction, []string{"a=schema:x", "a=schema:x"}, ""},
		{proxy.Transaction, []string{"a=schema:x", "a=schema:y"}, "twice"},
		{proxy.Transaction, []string{"a", "a=schema:x"}, "twice"},
		{proxy.Transaction, []string{"a=schema:"}, "name=schema:<schema>"},
		{proxy.Transaction, []string{"=schema:x"}, "want a name"},
		{proxy.Transaction, []string{"*=schema:*"}, "want <prefix>*=schema:*"},
		{proxy.Transaction, []string{"a*b*=schema:*"}, "want <prefix>*=schema:*"},
		{proxy.Transaction, []string{"a*=schema:x"}, "want <prefix>*=schema:*"},
		{proxy.Transaction, []string{"a=schema:*"}, "want <prefix>*=schema:*"},
		{proxy.Transaction, []string{"a=schema:public"}, `schema "public"`},
		{proxy.Transaction, []string{"a=schema:pg_x"}, `schema "pg_x"`},
		{proxy.Session, []string{"a=schema:x"}, "only where backends are shared"},
	} {
		err := proxy.Config{Kind: proxy.Postgres, Pairing: test.pairing, Database: "postgres", Databases: test.items}.Validate()
		told := ""
		for line := range strings.Lines(err.Error()) { // of the rest nothing is set
			if strings.HasPrefix(line, "listen.databases") {
				told = line
			}
		}
		if (told == "") != (test.want == "") || !strings.Contains(told, test.want) {
			t.Errorf("%s %q: %q, want %q", test.pairing, test.items, told, test.want)
		}
	}
}
