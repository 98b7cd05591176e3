package startup

import (
	"errors"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

func TestPeersAllowed(t *testing.T) {
	t.Parallel()
	names := map[string]string{"0": "root", "1000": "ann", "1001": "bob", "65534": "nobody"}
	lookUp := func(uid string) (*user.User, error) {
		if name, ok := names[uid]; ok {
			return &user.User{Uid: uid, Username: name}, nil
		}
		return nil, errors.New("unknown user")
	}
	for _, c := range []struct {
		entries []string
		uid     uint32
		name    string
		ok      bool
	}{
		{nil, 1000, "ann", true}, {nil, 1000, "bob", false}, {nil, 1000, "", false}, {nil, 1000, "1000", false}, {nil, 1000, "Ann", false},
		{nil, 0, "ann", false}, {nil, 0, "root", true},
		{nil, 2000, "2000", false}, {nil, 2000, "", false}, {[]string{"2000=app"}, 2000, "app", true}, {[]string{"2000=app"}, 2001, "app", false},
		{[]string{"ann=app"}, 1000, "app", true}, {[]string{"ann=app"}, 1000, "ann", false}, {[]string{"ann=app", "1000 = ann"}, 1000, "ann", true},
		{[]string{"ann=app"}, 1001, "app", false}, {[]string{"ann=app"}, 1001, "bob", true},
		// All users that another namespace has look like nobody.
		{nil, 65534, "nobody", false}, {[]string{"nobody=app", "65534=app"}, 65534, "app", false},
	} {
		p, err := parsePeerMap(c.entries)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := p.allows(c.uid, c.name, lookUp); ok != c.ok {
			t.Errorf("%v: %d as %q: %v", c.entries, c.uid, c.name, ok)
		}
	}
	for _, bad := range []string{"", "app", "=app", "1000=", "1000 = "} {
		if _, err := parsePeerMap([]string{bad}); err == nil || !strings.Contains(err.Error(), "auth.peer_map") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// The user of the process at the other end decides; a client by TCP is nobody.
func TestPeerAuthentication(t *testing.T) {
	t.Parallel()
	uid := strconv.Itoa(os.Getuid())
	h, err := NewHandshaker(Config{Timeout: 10 * time.Second, Method: Peer, PeerMap: []string{uid + "=app"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ network, address, name, want string }{
		{"unix", t.TempDir() + "/s", "app", ""}, {"unix", t.TempDir() + "/s", "other", "Peer authentication failed"},
		{"tcp", "127.0.0.1:0", "app", "for clients of the Unix socket"},
	} {
		ln, err := net.Listen(c.network, c.address)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		conn, err := net.Dial(c.network, ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		server, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		raw := rawconn.Wrap(server)
		defer raw.Close()
		err = (&clientHandshake{Handshaker: h, raw: raw, conn: raw}).authenticate(c.name)
		var told *wire.Error
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s as %s: %v", c.network, c.name, err)
		case c.want != "" && (!errors.As(err, &told) || told.Code != "28000" || !strings.Contains(told.Message, c.want) || told.Hint == ""):
			t.Errorf("%s as %s: %v, want %q", c.network, c.name, err, c.want)
		}
	}
}
