package startup

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/sockets"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

func tcpFrom(t testing.TB, ip string, port int) net.Addr {
	t.Helper()
	parsed := net.ParseIP(ip)
	if parsed == nil {
		t.Fatalf("no address: %s", ip)
	}
	return &net.TCPAddr{IP: parsed, Port: port}
}

// From each source only as many wrong answers are heard as its share allows, however many come at
// once, and none is told that it was right meanwhile; other sources, and this machine, go on.
func TestGuesses(t *testing.T) {
	t.Parallel()
	g := NewGuessLimiter(5, time.Second)
	now := time.Now()
	wrong, right := func() bool { return false }, func() bool { return true }
	heard := func(from net.Addr, now time.Time) (n int) {
		for range 50 {
			if _, ok := g.CheckGuess(from, now, wrong); ok {
				n++
			}
		}
		return n
	}
	for _, from := range []string{"192.0.2.1", "2001:db8:1:2::1", "::ffff:192.0.2.2"} {
		for range 100 { // right answers use nothing up
			if ok, heard := g.CheckGuess(tcpFrom(t, from, 1), now, right); !ok || !heard {
				t.Fatalf("%s: right answer: %v, heard %v", from, ok, heard)
			}
		}
		if n := heard(tcpFrom(t, from, 1), now); n != 5 {
			t.Errorf("%s: heard %d wrong answers, want 5", from, n)
		}
		if ok, heard := g.CheckGuess(tcpFrom(t, from, 2), now, right); ok || heard {
			t.Errorf("%s: a right answer was told to a guesser", from)
		}
		if n := heard(tcpFrom(t, from, 1), now.Add(3*time.Second)); n != 3 {
			t.Errorf("%s: heard %d wrong answers 3 s later, want 3", from, n)
		}
	}
	for _, other := range []string{"192.0.2.3", "2001:db8:1:3::1"} {
		if ok, _ := g.CheckGuess(tcpFrom(t, other, 1), now, right); !ok {
			t.Errorf("%s is kept out by others", other)
		}
	}
	if _, ok := g.CheckGuess(tcpFrom(t, "2001:db8:1:2:ffff::7", 1), now, right); ok {
		t.Error("another address of the same /64 has a share of its own")
	}
	for _, local := range []net.Addr{tcpFrom(t, "127.0.0.1", 1), tcpFrom(t, "127.9.9.9", 1), tcpFrom(t, "::1", 1), &net.UnixAddr{Name: "@", Net: "unix"}} {
		if n := heard(local, now); n != 50 {
			t.Errorf("%s: heard %d of 50", local, n)
		}
	}
}

// The sources that are remembered are bounded; those beyond share one share until others have
// their whole share again. A guesser is not forgotten for that.
func TestGuessesOfManySources(t *testing.T) {
	t.Parallel()
	g := NewGuessLimiter(2, time.Second)
	now := time.Now()
	wrong := func() bool { return false }
	guesser := tcpFrom(t, "198.51.100.1", 1)
	g.CheckGuess(guesser, now, wrong)
	g.CheckGuess(guesser, now, wrong)
	heard := 0
	for i := range 3 * mostSources {
		if _, ok := g.CheckGuess(tcpFrom(t, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), 1), now, wrong); ok {
			heard++
		}
	}
	if len(g.sources) > mostSources+1 || heard > mostSources+2 {
		t.Errorf("%d sources are remembered, %d heard", len(g.sources), heard)
	}
	if _, ok := g.CheckGuess(guesser, now, wrong); ok {
		t.Error("a guesser was forgotten while others came")
	}
	later := now.Add(time.Minute)
	if _, ok := g.CheckGuess(tcpFrom(t, "203.0.113.9", 1), later, wrong); !ok || len(g.sources) > 2 {
		t.Errorf("a minute later: heard %v, %d sources", ok, len(g.sources))
	}
}

// elsewhere is a connection that comes from another machine.
type elsewhere struct {
	rawconn.Conn
	from net.Addr
}

func (e elsewhere) RemoteAddr() net.Addr { return e.from }

// login is one attempt of a client from that address, nil for this machine; it returns the SQLSTATE,
// "" for a welcome.
func login(t *testing.T, s *Handshaker, from net.Addr, user, password string) string {
	t.Helper()
	server, conn := sockets.ConnPair(t, "tcp")
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	done := make(chan error, 1)
	go func() {
		raw := rawconn.Wrap(server)
		if from != nil {
			raw = elsewhere{raw, from}
		}
		_, err := s.Run(raw)
		server.Close()
		done <- err
	}()
	c := newSASLClient(t, conn, user)
	c.offered()
	c.converse("SCRAM-SHA-256", scramClient(t, password).NewConversation())
	m, err := c.frontend.Receive()
	if e, ok := m.(*pgproto3.ErrorResponse); ok {
		<-done
		return e.Code
	}
	if err := <-done; err != nil { // what is left to send goes with AuthenticationOk
		t.Errorf("%s: %v", user, err)
	}
	_ = err
	return ""
}

// A guesser at another machine is heard 20 times, also with all guesses at once, and is not
// told the right password then; at this machine every client is heard, and failures are held.
func TestPasswordGuesses(t *testing.T) {
	t.Parallel()
	s := startupWith(t, startupSCRAM(t, `"hashed" "`+verifierSesame+`"`))
	guesser := tcpFrom(t, "192.0.2.7", 5)
	var wg sync.WaitGroup
	var mu sync.Mutex
	told := map[string]int{}
	for range 40 {
		wg.Go(func() {
			code := login(t, s, guesser, "hashed", "wrong")
			mu.Lock()
			defer mu.Unlock()
			told[code]++
		})
	}
	wg.Wait()
	if told["28P01"] < passwordBurst || told["28P01"] > passwordBurst+10 || told["28P01"]+told["53300"] != 40 {
		t.Errorf("told %v", told)
	}
	s.passwords = NewGuessLimiter(1, time.Hour)
	if code := login(t, s, guesser, "hashed", "wrong"); code != "28P01" {
		t.Errorf("the first wrong password: %q", code)
	}
	if code := login(t, s, guesser, "hashed", "sesame"); code != "53300" {
		t.Errorf("the right password of a guesser: %q", code)
	}
	began := time.Now()
	if code := login(t, s, nil, "hashed", "wrong"); code != "28P01" || time.Since(began) < failureHold {
		t.Errorf("a wrong password of this machine: %q after %v", code, time.Since(began))
	}
	t.Run("half-closed", func(t *testing.T) {
		conn, done := startupClient(t, s, "tcp")
		c := newSASLClient(t, conn, "hashed")
		c.offered()
		c.converse("SCRAM-SHA-256", scramClient(t, "wrong").NewConversation())
		began := time.Now()
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		checkRefusal(t, conn, <-done, "28P01", `password authentication failed for user "hashed"`)
		if took := time.Since(began); took < failureHold*9/10 {
			t.Errorf("a client that has closed its half was told after %v", took)
		}
	})
	for range 30 {
		wg.Go(func() {
			if code := login(t, s, nil, "hashed", "sesame"); code != "" {
				t.Errorf("the right password of this machine: %q", code)
			}
		})
	}
	wg.Wait()
}

// With one secret, salts of unknown users and of plain passwords are the same in all processes; two
// secrets, or none, have different ones. A secret that anybody could try out is refused.
func TestSaltSecret(t *testing.T) {
	t.Parallel()
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "salt")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := startupSCRAM(t, `"plain" "sesame"`+"\n"+`"hashed" "`+verifierSesame+`"`)
	salts := func(secret string) string {
		config := config
		config.SaltSecretFile = secret
		s := startupWith(t, config)
		u := s.users.Load()
		if u.findCredentials("nobody", s.secret).Salt == u.findCredentials("noone", s.secret).Salt || u.findCredentials("nobody", s.secret).Iters != u.findCredentials("hashed", s.secret).Iters {
			t.Error("salts or iterations tell unknown users from others")
		}
		return u.findCredentials("nobody", s.secret).Salt + u.findCredentials("plain", s.secret).Salt
	}
	one, same, other := file(strings.Repeat("0123456789abcdef", 4)+"\n"), file(strings.Repeat("0123456789abcdef", 4)), file(strings.Repeat("f", 64))
	if salts(one) != salts(same) {
		t.Error("two processes with one secret have different salts")
	}
	if first, second := salts(""), salts(""); salts(one) == salts(other) || first == second {
		t.Error("different secrets have the same salts")
	}
	for text, want := range map[string]string{"": "want 32", strings.Repeat("x", 31) + "\n\n": "31 bytes", strings.Repeat("x", maxSaltSecret+1): "longer than"} {
		config := config
		config.SaltSecretFile = file(text)
		if _, err := NewHandshaker(config); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "auth.salt_secret_file ") {
			t.Errorf("a secret of %d bytes: %v", len(text), err)
		}
	}
	config.SaltSecretFile = "/nowhere"
	if _, err := NewHandshaker(config); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("no such file: %v", err)
	}
}
