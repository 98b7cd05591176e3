package startup

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xdg-go/scram"
)

// verifierSesame was made by PostgreSQL 15 for the password sesame.
const verifierSesame = "SCRAM-SHA-256$4096:1mJxx1+xATj9trJr3g3hVA==" +
	"$jbW0trlXxwO7HX6E1+xf4HMkotxocGdVMfCUU8IM29k=:xlzXPTp6/khhaFDdtCOCo7Ttp+S4rKnjOgjtCkN3TB4="

// Verifiers made by PostgreSQL 15, of which the second and third show what
// SASLprep changes and what it refuses.
func TestHashPassword(t *testing.T) {
	for _, test := range []struct{ password, verifier string }{
		{"sesame", verifierSesame},
		{"päss\u00a0wörd\u2168", "SCRAM-SHA-256$4096:ZSe64e+CkBVSTDzZFlpAUA==" +
			"$4xekJlzokjJwoqRxb1bVXUWg8RvCw9uEhz/NO90Ni58=:IFrVTLM5yq62NENUeUto0efsjIKXmDPIwUPCuIn4qBQ="},
		{"sm\U0001F511", "SCRAM-SHA-256$4096:XBfnZ8PkG5Ui6tXCzbqtTg==" +
			"$hrEzbH2Ek99dOMHkRvZkjToVAOhCOqh8xBOloJJEJcc=:qH+e8bIVPm2ZDUalVY0j88rsTiPLLPpVUfxbYWrr+Eo="},
	} {
		want, err := parseVerifier(test.verifier)
		if err != nil {
			t.Fatal(err)
		}
		got, err := hashPassword(test.password, want.Salt)
		if err != nil {
			t.Fatal(err)
		}
		if formatVerifier(got) != test.verifier {
			t.Errorf("%q: %s, want %s", test.password, formatVerifier(got), test.verifier)
		}
	}
}

func formatVerifier(c scram.StoredCredentials) string {
	b64 := base64.StdEncoding.EncodeToString
	return "SCRAM-SHA-256$" + strconv.Itoa(c.Iters) + ":" + b64([]byte(c.Salt)) + "$" + b64(c.StoredKey) + ":" + b64(c.ServerKey)
}

func TestScanUsers(t *testing.T) {
	type user struct{ name, password string } // password "verifier" for any verifier
	for _, test := range []struct {
		name, text string
		want       []user
		bad        []string // what each line of the error says, in order
	}{
		{name: "empty"},
		{name: "comments and blank lines", text: "; \"a\" \"b\"\n\n  \t\r\n ;x"},
		{name: "verifier", text: `"u" "` + verifierSesame + `"`, want: []user{{"u", "verifier"}}},
		{name: "plain text", text: "\"u\" \"secret\"\r\n\t\"v\"\t\"w\"  ", want: []user{{"u", "secret"}, {"v", "w"}}},
		{name: "doubled quotes", text: `"a""b" """;x""" ignored "rest"`, want: []user{{`a"b`, `";x"`}}},
		{name: "no password, no login", text: `"u" ""`, want: []user{{"u", ""}}},
		{name: "not quite md5", text: `"u" "md5"` + "\n" + `"v" "md5zz6ec8ef2b4f5a7c0d1e2f3a4b5c6d7"`,
			want: []user{{"u", "md5"}, {"v", "md5zz6ec8ef2b4f5a7c0d1e2f3a4b5c6d7"}}},
		{name: "every bad line at once", text: strings.Join([]string{
			`"good" "x"`,
			`u "x"`,
			`"u" x`,
			`"u`,
			`"u" "x`,
			`"u"`,
			`"" "x"`,
			`"m" "md5a3556571e93b0d20722ba62be61e8c2d"`,
			`"good" "y"`,
			`"s" "SCRAM-SHA-256$4096"`,
			`"s" "SCRAM-SHA-256$0:c2FsdA==$a:b"`,
			`"s" "SCRAM-SHA-256$-1:c2FsdA==$a:b"`,
			`"s" "SCRAM-SHA-256$99999999999:c2FsdA==$a:b"`,
			`"s" "SCRAM-SHA-256$4096:$a:b"`,
			`"s" "SCRAM-SHA-256$4096:*$a:b"`,
			`"s" "` + strings.Replace(verifierSesame, "jbW0", "", 1) + `"`,
			`"s" "` + strings.TrimSuffix(verifierSesame, "=") + `"`,
			`"v" "` + verifierSesame + `"`,
		}, "\n"),
			want: []user{{"good", "x"}, {"v", "verifier"}},
			bad: []string{
				"line 2: user name: want a string in double quotes",
				"line 3: password: want a string in double quotes",
				"line 4: user name: closing quote is missing",
				"line 5: password: closing quote is missing",
				"line 6: password: want a string in double quotes",
				"line 7: user name: empty",
				"line 8: password: md5 is not supported: store a SCRAM-SHA-256 verifier",
				"line 9: same user as in line 1",
				"line 10: verifier: want SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey",
				"line 11: verifier: iterations are not a positive number",
				"line 12: verifier: iterations are not a positive number",
				"line 13: verifier: iterations are not a positive number",
				"line 14: verifier: salt is not base64",
				"line 15: verifier: salt is not base64",
				"line 16: verifier: StoredKey is not 32 bytes in base64",
				"line 17: verifier: ServerKey is not 32 bytes in base64",
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines, err := scanUsers([]byte(test.text))
			var got []user
			for _, l := range lines {
				if l.verifier != nil {
					l.password = "verifier"
				}
				got = append(got, user{l.name, l.password})
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("users %q, want %q", got, test.want)
			}
			var bad []string
			if err != nil {
				bad = strings.Split(err.Error(), "\n")
			}
			if !slices.Equal(bad, test.bad) {
				t.Errorf("bad lines\n%s\nwant\n%s", strings.Join(bad, "\n"), strings.Join(test.bad, "\n"))
			}
		})
	}
}

func TestScanUsersBoundsErrors(t *testing.T) {
	_, err := scanUsers([]byte(strings.Repeat("bad\n", 5000)))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != maxUserErrors+1 || lines[maxUserErrors] != "and 4900 more bad lines" {
		t.Fatalf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

// A user who does not exist looks like one who does.
func TestFindUnknownUser(t *testing.T) {
	const lessUsual = 7777
	lines, err := scanUsers([]byte(`"u" "` + strings.Replace(verifierSesame, "4096", strconv.Itoa(lessUsual), 1) + `"`))
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := readAuthSecret("")
	u, err := newUserTable(lines, secret)
	if err != nil {
		t.Fatal(err)
	}
	another, _ := readAuthSecret("")
	first, again, other := u.findCredentials("nobody", secret), u.findCredentials("nobody", secret), u.findCredentials("noone", secret)
	if formatVerifier(first) != formatVerifier(again) {
		t.Error("the same unknown user has two verifiers")
	}
	if first.Salt == other.Salt || string(first.StoredKey) == string(other.StoredKey) {
		t.Error("two unknown users share a salt or key")
	}
	if first.Salt == u.findCredentials("u", secret).Salt || u.findCredentials("nobody", another).Salt == first.Salt {
		t.Error("a salt does not depend on what it should")
	}
	if first.Iters != lessUsual || len(first.Salt) != 16 || len(first.StoredKey) != 32 {
		t.Errorf("an unknown user stands out: %d iterations, salt of %d bytes", first.Iters, len(first.Salt))
	}
}

// Where users have hashes of several kinds, unknown users are told of the same kinds, each as often; and of the
// same as before, all but a few, when a user is added.
func TestUnknownUsersHaveTheKindsOfTheFile(t *testing.T) {
	t.Parallel()
	secret := authSecret{1}
	file := func(text string) *userTable {
		lines, err := scanUsers([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		u, err := newUserTable(lines, secret)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	keys := "$" + base64.StdEncoding.EncodeToString(make([]byte, 32)) + ":" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	verifier := func(iterations, salt int) string {
		return "SCRAM-SHA-256$" + strconv.Itoa(iterations) + ":" + base64.StdEncoding.EncodeToString(make([]byte, salt)) + keys
	}
	text := `"a" "` + verifier(10_000, 16) + "\"\n\"b\" \"plain\"\n\"c\" \"plain\"\n" + `"d" "` + verifier(4096, 40) + "\"\n"
	before, after := file(text), file(text+`"e" "`+verifier(20_000, 16)+"\"\n")
	type kind struct{ iterations, salt int }
	found, salts, changed := map[kind]int{}, map[string]bool{}, 0
	const names = 4000
	for i := range names {
		c := before.findCredentials(strconv.Itoa(i), secret)
		found[kind{c.Iters, len(c.Salt)}]++
		salts[c.Salt] = true
		if again := after.findCredentials(strconv.Itoa(i), secret); again.Iters != c.Iters || again.Salt != c.Salt {
			changed++
		}
	}
	for kind, users := range map[kind]int{{10_000, 16}: 1, {4096, 16}: 2, {4096, 40}: 1} {
		if share := found[kind] * 4; share < users*names*9/10 || share > users*names*11/10 {
			t.Errorf("%+v: %d of %d unknown users, and %d of 4 known ones", kind, found[kind], names, users)
		}
	}
	if len(found) != 3 || len(salts) != names {
		t.Errorf("%v, %d salts of %d users", found, len(salts), names)
	}
	if changed > names/2 {
		t.Errorf("%d of %d unknown users look otherwise when one is added", changed, names)
	}
}

func TestReloadUsers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "userlist.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := Config{Method: SCRAM, UsersFile: path}
	if _, err := NewHandshaker(config); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Fatalf("without a file: %v", err)
	}
	write(`"a" "x"`)
	s, err := NewHandshaker(config)
	if err != nil {
		t.Fatal(err)
	}
	before := s.users.Load()
	write("nonsense")
	if err := s.ReloadUsers(); err == nil || !strings.Contains(err.Error(), path+": line 1: ") {
		t.Fatalf("reload of a bad file: %v", err)
	}
	if s.users.Load() != before {
		t.Fatal("a bad file replaced the users")
	}
	write(strings.Repeat(";\n", maxUsersFile/2+1))
	if err := s.ReloadUsers(); err == nil || s.users.Load() != before {
		t.Fatalf("reload of a huge file: %v", err)
	}
	write(`"b" "x"`)
	if err := s.ReloadUsers(); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.users.Load().credentials["b"]; !ok || len(s.users.Load().credentials) != 1 {
		t.Fatal("reload did not bring the new user, or kept the old one")
	}
	// Without SCRAM there is no file to read.
	if _, err := NewHandshaker(Config{Method: Trust}); err != nil {
		t.Fatal(err)
	}
}

func FuzzUsers(f *testing.F) {
	f.Add([]byte(`"u" "` + verifierSesame + `" rest` + "\n;c\n\"v\" \"a\"\"b\""))
	f.Add([]byte(`"u" "md5a3556571e93b0d20722ba62be61e8c2d"`))
	f.Add([]byte("\"\r\n\" \"\x00\""))
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, err := scanUsers(text)
		if n := strings.Count(string(text), "\n") + 1; len(lines) > n {
			t.Fatalf("%d users in %d lines", len(lines), n)
		}
		if err != nil && strings.Count(err.Error(), "\n") > maxUserErrors {
			t.Fatal("the error has no bound")
		}
		seen := map[string]bool{}
		for _, l := range lines {
			if l.name == "" || seen[l.name] {
				t.Fatalf("user %q is empty or there twice", l.name)
			}
			seen[l.name] = true
			// What was read can be written in that form, and read again.
			secret := l.password
			if l.verifier != nil {
				secret = formatVerifier(*l.verifier)
			}
			quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
			again, err := scanUser(quote(l.name) + " " + quote(secret))
			if err != nil || again.name != l.name || again.password != l.password || (again.verifier == nil) != (l.verifier == nil) {
				t.Fatalf("%+v became %+v, %v", l, again, err)
			}
		}
	})
}
