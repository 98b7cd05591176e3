package reservoir

import (
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// hostile sets everything of the user's world that pgconn is known to read, to
// values that would show or break a dial. services is the service file's text.
func hostile(t *testing.T, service, services string) {
	t.Helper()
	home := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Setenv("HOME", home)
	write(".postgresql/root.crt", "not a certificate")
	write(".postgresql/postgresql.crt", "not a certificate")
	write(".postgresql/postgresql.key", "not a key")
	write(".pg_service.conf", services)
	for name, value := range map[string]string{
		"PGHOST": "elsewhere.invalid,other.invalid", "PGHOSTADDR": "192.0.2.1", "PGPORT": "1,2,3", "PGDATABASE": "stolen",
		"PGUSER": "thief", "PGPASSWORD": "stolen", "PGPASSFILE": write(".pgpass", "*:*:*:*:stolen\n"),
		"PGAPPNAME": "stolen", "PGCONNECT_TIMEOUT": "soon", "PGSSLMODE": "nonsense", "PGSSLKEY": "/nowhere", "PGSSLCERT": "/nowhere",
		"PGSSLCERTMODE": "nonsense", "PGSSLSNI": "0", "PGSSLROOTCERT": "/nowhere", "PGSSLPASSWORD": "stolen",
		"PGSSLNEGOTIATION": "direct", "PGTARGETSESSIONATTRS": "standby", "PGSERVICE": service, "PGSERVICEFILE": write("services", services),
		"PGTZ": "Mars", "PGOPTIONS": "-c search_path=stolen", "PGMINPROTOCOLVERSION": "9.9", "PGMAXPROTOCOLVERSION": "nonsense",
		"PGCHANNELBINDING": "nonsense", "PGREQUIREAUTH": "nonsense", "PGCLIENTENCODING": "LATIN1", "PGDATESTYLE": "German",
		"PGGSSENCMODE": "require", "PGKRBSRVNAME": "stolen", "PGREQUIRESSL": "1", "PGSYSCONFDIR": home, "PGREALM": "stolen",
	} {
		t.Setenv(name, value)
	}
}

// Nothing of PG* variables, ~/.pgpass, ~/.postgresql and service files shows in
// what a server sees, nor keeps it from being dialled.
func TestUsersWorldDoesNotReachADial(t *testing.T) {
	certificate, ca := newCertificate(t, "db.example")
	const service = "[stolen]\nhost=elsewhere.invalid\nuser=thief\npassword=stolen\nsearch_path=stolen\nkrbsrvname=stolen\nsslmode=disable\n"
	for name, world := range map[string]struct{ service, services string }{
		"service":         {"stolen", service},
		"no such service": {"absent", service},
		"broken services": {"stolen", "nonsense\n"},
		"no service":      {"", service},
	} {
		t.Run(name, func(t *testing.T) {
			hostile(t, world.service, world.services)
			f := (&fakeServer{certificate: certificate, cleartext: true}).start(t)
			c := dial(t, DialConfig{Kind: KindPostgres, Endpoint: "db.example", Address: "127.0.0.1", Port: f.port(),
				CAFile: ca, SSLMode: "verify-full", User: "sluice", Database: "app", Timeout: 10 * time.Second}, nil)
			if _, ok := c.Net.(*tls.Conn); !ok {
				t.Errorf("the connection is a %T", c.Net)
			}
			f.note(func() {
				want := map[string]string{"protocol": "\x00\x03\x00\x00", "user": "sluice", "database": "app"}
				if len(f.startups) != 1 || !maps.Equal(f.startups[0], want) {
					t.Errorf("startups %q, want %q", f.startups, want)
				}
				if len(f.password) != 1 || f.password[0] != "" {
					t.Errorf("passwords %q, want an empty one", f.password)
				}
				if len(f.sni) != 1 || f.sni[0] != "db.example" {
					t.Errorf("server names %q", f.sni)
				}
			})
		})
	}
}

// Field by field, the configuration is the same in a hostile world as in an
// empty one. A field that pgconn adds is compared too.
func TestBareConfigHoldsNothingOfTheUsersWorld(t *testing.T) {
	for _, pair := range os.Environ() {
		if len(pair) > 2 && pair[:2] == "PG" {
			t.Fatalf("run the tests without %s", pair)
		}
	}
	clean := fields(t)
	hostile(t, "stolen", "[stolen]\nsearch_path=stolen\n")
	for name, value := range fields(t) {
		if value != clean[name] {
			t.Errorf("%s is %s, want %s", name, value, clean[name])
		}
	}
}

// fields prints the fields of a configWithoutEnv; of functions, whether there is one.
func fields(t *testing.T) map[string]string {
	t.Helper()
	cfg, err := configWithoutEnv()
	if err != nil {
		t.Fatal(err)
	}
	printed := make(map[string]string)
	v := reflect.ValueOf(cfg).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() == reflect.Func {
			printed[v.Type().Field(i).Name] = fmt.Sprint(f.IsNil())
			continue
		}
		printed[v.Type().Field(i).Name] = fmt.Sprintf("%#v", f)
	}
	return printed
}
