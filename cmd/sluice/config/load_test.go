package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/cmd/sluice/config/configtest"
	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

func TestFlagBeatsVariableBeatsFileBeatsDefault(t *testing.T) {
	for i := range config.Keys {
		k := &config.Keys[i]
		t.Run(k.Name, func(t *testing.T) {
			fileText, fileValue := configtest.NonDefaultValue(k, 1)
			envText, envValue := configtest.NonDefaultValue(k, 2)
			flagText, flagValue := configtest.NonDefaultValue(k, 3)
			file := fmt.Sprintf("%s: %s", k.Name, fileText)
			if outer, inner, nested := strings.Cut(k.Name, "."); nested {
				file = fmt.Sprintf("%s:\n  %s: %s\n", outer, inner, fileText)
			}
			if k.Secret {
				file = strings.ReplaceAll(file, "<redacted>", fileValue.(string))
				envText = envValue.(string)
			}
			env := map[string]string{k.EnvName(): envText}
			flag := []string{"--" + k.FlagName() + "=" + flagText}
			type step struct {
				source configtest.Source
				value  any
				origin string
			}
			steps := []step{
				{configtest.Source{}, k.Default, "default"},
				{configtest.Source{File: file}, fileValue, "file FILE"},
				{configtest.Source{File: file, Env: env}, envValue, "env " + k.EnvName()},
				{configtest.Source{Env: env}, envValue, "env " + k.EnvName()},
			}
			if !k.Secret {
				steps = append(steps,
					step{configtest.Source{File: file, Env: env, Flags: flag}, flagValue, "flag --" + k.FlagName()},
					step{configtest.Source{File: file, Flags: flag}, flagValue, "flag --" + k.FlagName()})
			}
			for _, step := range steps {
				path, flags := step.source.Prepare(t)
				c := config.LoadWithProblems(path, flags).Config
				origin := configtest.RemovePath(c.SourceOf(k.Name), path)
				if got := c.Value(k.Name); !reflect.DeepEqual(got, step.value) || origin != step.origin {
					t.Errorf("got %v from %s, want %v from %s", got, origin, step.value, step.origin)
				}
				for name := range step.source.Env { // the next step sets its own
					os.Unsetenv(name)
				}
			}
		})
	}
}

func TestEveryProblemIsToldAtOnce(t *testing.T) {
	got := configtest.Source{
		File: "listen:\n  max_clients: many\n  adress: x\npairing: [a]\ntls: 5\nlog: {level: {a: b}}\nauth:\n",
		Env: map[string]string{
			"DSQL_BACKEND_PORT": "tcp://10.0.0.7:5432", "DSQL_CANCEL_GRACE": "0s", "DSQL_RETRY_ENABLED": "yes", "DSQL_RETRY_BUDGET_PER_COMMIT": "lots", "DSQL_RETRY_BASE_DELAY": "0s", "DSQL_BACKEND_PASSWORD": "hunter2",
		},
		Flags: []string{"--listen-address=0.0.0.0:5432", "--tls-required", "--drain-timeout=-1s", "--drain-mode=plain", "--runtime-procs", "two", "--backend-sslmode=require"},
	}.LoadProblems(t)
	slices.Sort(got)
	want := []string{
		`backend.endpoint: empty: want the cluster's <id>.dsql.<region>.on.aws (default)`,
		`backend.password: set: kind dsql makes its own from AWS credentials; remove it (env DSQL_BACKEND_PASSWORD)`,
		`backend.port: "tcp://10.0.0.7:5432": want a whole number; Kubernetes sets this for a Service of that name: set enableServiceLinks to false (env DSQL_BACKEND_PORT)`,
		`backend.sslmode: "require": DSQL is always verify-full; leave it out, or set backend.kind to postgres (flag --backend-sslmode)`,
		`cancel.grace: 0s: want more than 0 (env DSQL_CANCEL_GRACE)`,
		`drain.quiet: 3s: want more than 0, and at most half of drain.timeout (default)`,
		`drain.timeout: -1s: want 0 (cut at once) or more (flag --drain-timeout)`,
		`listen.address: "0.0.0.0:5432": other machines could connect without a password: set auth.method, or listen on 127.0.0.1, or allow it with auth.allow_remote_trust (flag --listen-address)`,
		`listen.adress: unknown key; did you mean listen.address? (file FILE)`,
		`listen.max_clients: "many": want a whole number (file FILE)`,
		`log.level.a: log.level takes a value, not a section (file FILE)`,
		`log.level: map[a:b]: want text; put it in quotes (file FILE)`,
		`pairing: [a]: want text; put it in quotes (file FILE)`,
		`retry.base_delay: 0s: want more than 0 (env DSQL_RETRY_BASE_DELAY)`,
		`retry.budget_per_commit: "lots": want a number (env DSQL_RETRY_BUDGET_PER_COMMIT)`,
		`retry.enabled: "yes": want auto, true or false (env DSQL_RETRY_ENABLED)`,
		`runtime.procs: "two": want a whole number (flag --runtime-procs)`,
		`tls.required: true needs tls.cert_file and tls.key_file (flag --tls-required)`,
		`tls: a section, not a value: write its keys below it (file FILE)`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRules(t *testing.T) {
	leased := []string{"--distributed-conn-lease-enabled", "--distributed-conn-lease-table=leases"}
	for _, test := range []struct {
		name  string
		flags []string
		want  string // "" when it is fine
	}{
		{"loopback", nil, ""},
		{"localhost", []string{"--listen-address=localhost:5432"}, ""},
		{"IPv6 loopback", []string{"--listen-address=[::1]:5432"}, ""},
		{"port chosen by the system", []string{"--listen-address=127.0.0.1:0"}, ""},
		{"every address", []string{"--listen-address=:5432"}, "listen.address: \":5432\": other machines"},
		{"remote trust allowed", []string{"--listen-address=:5432", "--auth-allow-remote-trust"}, ""},
		{"remote with passwords", []string{"--listen-address=:5432", "--auth-method=scram-sha-256", "--auth-users-file=u"}, ""},
		{"no port", []string{"--listen-address=127.0.0.1"}, "listen.address: \"127.0.0.1\": want host:port"},
		{"named port", []string{"--admin-address=127.0.0.1:http"}, "admin.address: \"127.0.0.1:http\": want host:port"},
		{"nowhere", []string{"--listen-address="}, "listen.address: empty: nobody could connect"},
		{"Unix socket alone", []string{"--listen-address=", "--listen-unix-socket=/tmp"}, ""},
		{"peer beside a TCP listener", []string{"--auth-method=peer", "--listen-unix-socket=/run/x"}, "auth.method: \"peer\": it is for the Unix socket alone: set listen.unix_socket, and listen.address to nothing"},
		{"a map for nobody", []string{"--auth-peer-map=1000=app"}, "auth.peer_map: "},
		{"a map without a user", []string{"--auth-method=peer", "--auth-peer-map=app", "--listen-address=", "--listen-unix-socket=/run/x"}, "auth.peer_map: \"app\": want osuser=user"},
		{"mode of the Unix socket", []string{"--listen-unix-socket-mode=0o77x"}, "listen.unix_socket_mode: "},
		{"a mode that shuts everybody out", []string{"--listen-unix-socket-mode=0077"}, "listen.unix_socket_mode: "},
		{"long Unix socket", []string{"--listen-unix-socket=/" + strings.Repeat("x", 100)}, "listen.unix_socket: "},
		{"certificate without key", []string{"--tls-cert-file=c"}, "tls.key_file: empty: tls.cert_file needs its key"},
		{"key without certificate", []string{"--tls-key-file=k"}, "tls.cert_file: empty: tls.key_file needs its certificate"},
		{"authority alone", []string{"--tls-client-ca-file=a"}, "tls.client_ca_file: \"a\": needs tls.cert_file and tls.key_file"},
		{"required TLS", []string{"--tls-required", "--tls-cert-file=c", "--tls-key-file=k"}, ""},
		{"cert without authority", []string{"--auth-method=cert", "--tls-cert-file=c", "--tls-key-file=k"}, "tls.client_ca_file: empty: auth.method cert needs"},
		{"cert", []string{"--auth-method=cert", "--tls-cert-file=c", "--tls-key-file=k", "--tls-client-ca-file=a"}, ""},
		{"scram without users", []string{"--auth-method=scram-sha-256"}, "auth.users_file: empty"},
		{"region unknown", []string{"--endpoint=db.example.com"}, "backend.endpoint: \"db.example.com\""},
		{"region given", []string{"--endpoint=db.example.com", "--backend-region=us-east-1"}, ""},
		{"postgres", []string{"--backend-kind=postgres", "--endpoint=localhost", "--backend-sslmode=disable"}, ""},
		{"lease without a table", []string{"--distributed-conn-lease-enabled"}, "distributed.conn_lease_table: empty: distributed.conn_lease_enabled needs"},
		{"rate without a table", []string{"--distributed-rate-limiter-enabled"}, "distributed.rate_limiter_table: empty: distributed.rate_limiter_enabled needs"},
		{"a table with a name that DynamoDB refuses", []string{"--distributed-conn-lease-table=t1"},
			"distributed.conn_lease_table: \"t1\": want the name of a DynamoDB table"},
		{"a rate's table with a name that DynamoDB refuses", []string{"--distributed-rate-limiter-table=of rates"}, "distributed.rate_limiter_table: \"of rates\": want the name of a DynamoDB table"},
		{"a table by its ARN", []string{"--distributed-conn-lease-table=arn:aws:dynamodb:us-east-1:123456789012:table/leases"}, ""},
		{"both on one table", []string{"--distributed-conn-lease-enabled", "--distributed-rate-limiter-enabled", "--distributed-conn-lease-table=leases"}, ""},
		{"margin over limit", []string{"--distributed-conn-limit=100"}, "distributed.conn_margin: 500: want 0 or more, and less"},
		{"hardly any guard", append(slices.Clone(leased), "--distributed-guard=1s"), "distributed.guard: 1s: want at least 2s"},
		{"dials that outlive the lease", append(slices.Clone(leased), "--distributed-transaction-limit=4s"), "reservoir.dial_timeout: 10s: want at most 9s"},
		{"no guard without a lease", []string{"--distributed-guard=1s"}, ""},
		{"isolation answered for PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-enabled=true", "--rewrite-isolation=true"}, "rewrite.isolation: \"true\": transactions of PostgreSQL are READ COMMITTED"},
		{"isolation of PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-enabled=true"}, ""},
		{"batches for PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-enabled=true", "--rewrite-chunked-delete=t"}, "rewrite.chunked_delete: t: a DELETE is carried out in batches on kind dsql only"},
		{"batches, but nothing is rewritten", []string{"--rewrite-enabled=false", "--rewrite-chunked-delete=t"}, "rewrite.chunked_delete"},
		{"batches of no table", []string{"--rewrite-chunked-delete=a.b.c"}, "rewrite.chunked_delete: \"a.b.c\": want table or schema.table"},
		{"columns filled for PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-enabled=true", "--ddl-add-column-default=backfill"}, "ddl.add_column_default: \"backfill\": columns are added so on kind dsql only"},
		{"columns filled, but nothing is rewritten", []string{"--rewrite-enabled=false", "--ddl-add-column-default=backfill"}, "ddl.add_column_default"},
		{"columns filled", []string{"--ddl-add-column-default=backfill"}, ""},
		{"TRUNCATE as DELETE for PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-enabled=true", "--rewrite-truncate=delete"}, "rewrite.truncate: \"delete\": PostgreSQL has TRUNCATE"},
		{"TRUNCATE in batches, but nothing is rewritten", []string{"--rewrite-enabled=false", "--rewrite-truncate=batches"}, "rewrite.truncate"},
		{"TRUNCATE in batches", []string{"--rewrite-truncate=batches"}, ""},
		{"types changed for PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-enabled=true", "--ddl-alter-column-type=rewrite"}, "ddl.alter_column_type: \"rewrite\": PostgreSQL changes types itself"},
		{"types changed, but nothing is rewritten", []string{"--rewrite-enabled=false", "--ddl-alter-column-type=rewrite"}, "ddl.alter_column_type"},
		{"types changed", []string{"--ddl-alter-column-type=rewrite"}, ""},
		{"NOT NULL as CHECK for PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-enabled=true", "--ddl-set-not-null=check"}, "ddl.set_not_null: \"check\": a CHECK stands for NOT NULL on kind dsql only"},
		{"NOT NULL as CHECK, but no constraints", []string{"--ddl-add-constraint=refuse", "--ddl-set-not-null=check"}, "ddl.set_not_null"},
		{"NOT NULL as CHECK", []string{"--ddl-set-not-null=check"}, ""},
		{"choices", []string{"--client-may-set=ddl.carry_out,ddl.set_not_null", "--client-users=m:ddl.carry_out=all,a:b:rewrite.create_index_wait=off"}, ""},
		{"a choice that there is not", []string{"--client-may-set=ddl.add_constraint"}, "client.may_set: \"ddl.add_constraint\": clients cannot choose it: want ddl.carry_out, ddl.add_column_default,"},
		{"choices on PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--client-may-set=ddl.carry_out"}, "client.may_set: ddl.carry_out: PostgreSQL takes such DDL"},
		{"choices, but nothing is rewritten", []string{"--rewrite-enabled=false", "--client-users=m:ddl.carry_out=all"}, "client.users: m:ddl.carry_out=all: PostgreSQL takes such DDL, and nothing is read"},
		{"a choice without what it needs", []string{"--ddl-add-constraint=refuse", "--client-may-set=ddl.set_not_null"}, "client.may_set: ddl.set_not_null: ddl.set_not_null is of use with ddl.add_constraint at steps only"},
		{"a user without a key", []string{"--client-users=m"}, "client.users: \"m\": want user:key=value, such as migrator:ddl.carry_out=all"},
		{"a key without a user", []string{"--client-users=:ddl.carry_out=all"}, "client.users: \":ddl.carry_out=all\": want user:key=value"},
		{"a user's unknown key", []string{"--client-users=m:rewrite.locking=false"}, "client.users: \"m:rewrite.locking=false\": rewrite.locking cannot be set by user: want ddl.carry_out,"},
		{"a user's bad value", []string{"--client-users=m:ddl.carry_out=some"}, "client.users: \"m:ddl.carry_out=some\": want ddl.carry_out to be exact or all"},
		{"a user's key twice", []string{"--client-users=m:ddl.carry_out=all,m:ddl.carry_out=exact"}, "client.users: m:ddl.carry_out=all,m:ddl.carry_out=exact: the key is said twice of a user"},
		{"all DDL carried out", []string{"--ddl-carry-out=all"}, ""},
		{"all DDL carried out, but no constraints", []string{"--ddl-carry-out=all", "--ddl-add-constraint=refuse"}, ""},
		{"all DDL carried out for PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-enabled=true", "--ddl-carry-out=all"}, "ddl.carry_out: \"all\": PostgreSQL takes such DDL"},
		{"isolation answered, but nothing is", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-isolation=true"}, ""},
		{"extensions answered for PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-enabled=true", "--rewrite-extensions=true"}, "rewrite.extensions: \"true\": PostgreSQL has extensions"},
		{"a cache that DSQL refuses", []string{"--rewrite-sequence-cache=0"}, "rewrite.sequence_cache: 0: want 1, or 65536 or more"},
		{"cursors carried out for PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-enabled=true", "--rewrite-cursors=true"}, "rewrite.cursors: \"true\": PostgreSQL has cursors"},
		{"discards answered for PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-enabled=true", "--rewrite-session=true"}, "rewrite.session: \"true\": sessions of PostgreSQL"},
		{"bytea mapped for PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-bytea=hex"}, "rewrite.bytea: \"hex\": PostgreSQL takes bytea in keys"},
		{"bytea mapped by casts for PostgreSQL", []string{"--backend-kind=postgres", "--endpoint=localhost", "--rewrite-bytea=hex-cast"}, "rewrite.bytea: \"hex-cast\": PostgreSQL takes bytea in keys"},
		{"bytea mapped, but nothing is", []string{"--rewrite-enabled=false", "--rewrite-bytea=hex"}, "rewrite.bytea: \"hex\": nothing is rewritten"},
		{"bytea mapped", []string{"--rewrite-bytea=hex", "--rewrite-bytea-check=false", "--rewrite-bytea-columns=t.a,u.b"}, ""},
		{"no column", []string{"--rewrite-bytea-columns=a"}, "rewrite.bytea_columns: \"a\": want table.column"},
		{"no column, and nothing is rewritten", []string{"--rewrite-enabled=false", "--rewrite-bytea-columns=s.t.a"}, "rewrite.bytea_columns: \"s.t.a\": want table.column"},
		{"an isolation level ignored", []string{"--settings-ignored=jit,Default_Transaction_Isolation"}, "settings.ignored: \"Default_Transaction_Isolation\": a client would be told"},
		{"SERIALIZABLE ignored", []string{"--settings-ignored=transaction_isolation=serializable"}, "settings.ignored: \"transaction_isolation=serializable\": a client would be told"},
		{"a weaker level ignored", []string{"--settings-ignored=default_transaction_isolation=Read Committed"}, ""},
		{"READ ONLY ignored", []string{"--settings-ignored=default_transaction_read_only"}, "settings.ignored: \"default_transaction_read_only\": a client would be told"},
		{"strings that escape", []string{"--settings-ignored=standard_conforming_strings"}, "settings.ignored: \"standard_conforming_strings\": a client would be told"},
		{"slow calls", []string{"--distributed-call-timeout=6s"}, "distributed.call_timeout: 6s: want more than 0, at most 5s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := configtest.Source{Flags: append([]string{"--endpoint=" + configtest.Endpoint}, test.flags...)}
			if test.want == "" {
				s.MustLoad(t)
				return
			}
			if got := s.LoadProblems(t); len(got) != 1 || !strings.HasPrefix(got[0], test.want) {
				t.Errorf("got\n%s\nwant one line, %s ...", strings.Join(got, "\n"), test.want)
			}
		})
	}
}

func TestDerived(t *testing.T) {
	dsql := []string{"--endpoint=" + configtest.Endpoint}
	postgres := []string{"--endpoint=localhost", "--backend-kind=postgres"}
	for _, test := range []struct {
		name    string
		flags   []string
		forward bool
		target  int
	}{
		{"dsql", dsql, false, 100},
		{"dsql forwards when told", append(dsql, "--cancel-forward=true"), true, 100},
		{"postgres", append(postgres, "--reservoir-max-open=7"), true, 7},
		{"postgres does not forward when told", append(postgres, "--cancel-forward=false"), false, 100},
		{"postgres session", append(postgres, "--pairing=session"), true, 0},
		{"postgres replays when told", append(postgres, "--retry-enabled=true"), true, 100},
		{"no savepoints", append(dsql, "--retry-savepoints=off"), false, 100},
		{"savepoints of others", append(postgres, "--retry-enabled=true", "--retry-savepoints=relaxed"), true, 100},
		{"not ahead of demand", append(dsql, "--reservoir-enabled=false"), false, 0},
		{"on demand", append(dsql, "--reservoir-target-ready=0"), false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := configtest.Source{Flags: test.flags}.MustLoad(t)
			if c.Proxy.ForwardCancel != test.forward || c.Reservoir.TargetReady != test.target {
				t.Errorf("forward %v, target %d; want %v, %d", c.Proxy.ForwardCancel, c.Reservoir.TargetReady, test.forward, test.target)
			}
			if replay := c.Backend.Kind == "dsql" || slices.Contains(test.flags, "--retry-enabled=true"); c.Proxy.Replay != replay {
				t.Errorf("replay %v, want %v", c.Proxy.Replay, replay)
			}
			savepoints := retry.NoSavepoints
			switch {
			case slices.Contains(test.flags, "--retry-savepoints=relaxed"):
				savepoints = retry.Relaxed
			case c.Backend.Kind == "dsql" && !slices.Contains(test.flags, "--retry-savepoints=off"):
				savepoints = retry.Strict
			}
			if got := c.Proxy.Retry.Savepoints; got != savepoints || c.Rewrite.Rules.Savepoints != (got != retry.NoSavepoints) {
				t.Errorf("savepoints %v, want %v, and the rules know of them: %v", got, savepoints, c.Rewrite.Rules.Savepoints)
			}
			if string(c.Proxy.Kind) != c.Backend.Kind || c.Proxy.Database != "postgres" || c.Proxy.MaxStatementBytes != c.Rewrite.MaxBytes {
				t.Errorf("kind %q, database %q, %d bytes are not those of the keys", c.Proxy.Kind, c.Proxy.Database, c.Proxy.MaxStatementBytes)
			}
		})
	}
}

func TestByteaMapping(t *testing.T) {
	flags := []string{"--endpoint=" + configtest.Endpoint, "--rewrite-bytea-columns=t.a"}
	postgres := []string{"--backend-kind=postgres", "--endpoint=localhost"}
	for _, test := range []struct {
		flags []string
		want  rewrite.ByteaMapping
		shown string
	}{
		{flags, rewrite.ByteaHex, "hex"},
		{append(flags, "--rewrite-bytea=auto"), rewrite.ByteaHex, "hex"},
		{append(flags, "--rewrite-bytea=hex-cast"), rewrite.ByteaHexCast, "hex-cast"},
		{append(flags, "--rewrite-bytea=off"), rewrite.ByteaOff, "off"},
		{append(flags, "--rewrite-enabled=false"), rewrite.ByteaOff, "off"},
		{postgres, rewrite.ByteaOff, "off"},
		{append(postgres, "--rewrite-enabled=true"), rewrite.ByteaOff, "off"},
	} {
		c := configtest.Source{Flags: test.flags}.MustLoad(t)
		if got := c.Rewrite.Rules.Bytea; got != test.want {
			t.Errorf("%q: mapped by %q, want %q", test.flags, got, test.want)
		}
		if shown := "  bytea: \"" + test.shown + "\" # "; !strings.Contains(c.YAML(), shown) {
			t.Errorf("%q: check does not show %s", test.flags, shown)
		}
	}
	rules := configtest.Source{Flags: flags}.MustLoad(t).Rewrite.Rules
	if !rules.ByteaCheck || !slices.Equal(rules.ByteaColumns, []string{"t.a"}) {
		t.Errorf("rules %v, %q", rules.ByteaCheck, rules.ByteaColumns)
	}
}

func TestAVariableOfASectionHidesNothing(t *testing.T) {
	c := configtest.Source{
		File: "listen: {max_clients: 7}\nbackend: {endpoint: " + configtest.Endpoint + "}",
		Env:  map[string]string{"DSQL_LISTEN": "x", "DSQL_BACKEND": "y"},
	}.MustLoad(t)
	if c.Proxy.MaxClients != 7 || c.Backend.Endpoint != configtest.Endpoint || c.Listen.Address != "127.0.0.1:5432" {
		t.Errorf("max_clients %d, endpoint %q, address %q", c.Proxy.MaxClients, c.Backend.Endpoint, c.Listen.Address)
	}
}

func TestAnEmptyVariableMeansEmpty(t *testing.T) {
	c := configtest.Source{File: "admin: {address: '127.0.0.1:1'}", Env: map[string]string{"DSQL_ADMIN_ADDRESS": ""}, Flags: []string{"--endpoint", configtest.Endpoint}}.MustLoad(t)
	if c.Admin.Address != "" {
		t.Errorf("admin.address = %q, want it off", c.Admin.Address)
	}
}

func TestBadFiles(t *testing.T) {
	for _, file := range []string{"listen: [", "a: 1\na: 2", "just text"} {
		if got := (configtest.Source{File: file}).LoadProblems(t); len(got) != 1 || !strings.HasPrefix(got[0], "FILE: ") {
			t.Errorf("%q: got\n%s\nwant one line about the file", file, strings.Join(got, "\n"))
		}
	}
	_, flags := configtest.Source{}.Prepare(t)
	if _, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"), flags); err == nil {
		t.Error("a missing file was accepted")
	}
}

func TestSampleFile(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/sluice.yaml")
	if err != nil {
		t.Fatal(err)
	}
	configtest.Source{File: string(text)}.MustLoad(t)

	// With every key taken out of its comment it must say what the table says.
	whole := regexp.MustCompile(`(?m)^( *)#([a-z])`).ReplaceAllString(string(text), "$1$2")
	path, flags := configtest.Source{File: whole}.Prepare(t)
	l := config.LoadWithProblems(path, flags)
	if len(l.Problems) > 0 {
		t.Errorf("problems:\n%s", strings.Join(l.Problems, "\n"))
	}
	for i := range config.Keys {
		k := &config.Keys[i]
		origin, value := l.Config.SourceOf(k.Name), l.Config.Value(k.Name)
		switch {
		case origin == "default":
			t.Errorf("%s is not in the sample", k.Name)
		case k.Name != "backend.endpoint" && !reflect.DeepEqual(value, k.Default):
			t.Errorf("%s: the sample has %v, the default is %v", k.Name, value, k.Default)
		}
	}
}

func TestRulesFollowTheBackend(t *testing.T) {
	for _, test := range []struct {
		flags []string
		want  bool
	}{
		{[]string{"--endpoint=" + configtest.Endpoint}, true},
		{[]string{"--endpoint=" + configtest.Endpoint, "--rewrite-enabled=false"}, false},
		{[]string{"--endpoint=h", "--backend-kind=postgres"}, false},
		{[]string{"--endpoint=h", "--backend-kind=postgres", "--rewrite-enabled=true"}, true},
	} {
		c := configtest.Source{Flags: append(test.flags, `--rewrite-locking-policies=[{"tables":["t"],"policy":"flag"}]`)}.MustLoad(t)
		r := c.Rewrite.Rules
		if r.Locking != test.want || r.Dialect != test.want || r.Index != test.want || len(r.Policies) != 1 {
			t.Errorf("%v: %+v", test.flags, r)
		}
		if r.Constraints != (test.want && c.Proxy.Kind == proxy.DSQL) || r.NotNullCheck {
			t.Errorf("%v: constraints are added in steps: %t", test.flags, r.Constraints)
		}
	}
}
