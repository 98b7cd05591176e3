package startup

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/xdg-go/scram"

	"github.com/sluice-proxy/sluice/integration/certs"
)

// startupSCRAM is a configuration with that users file.
func startupSCRAM(t testing.TB, text string) Config {
	t.Helper()
	config := startupConfig(SCRAM)
	config.UsersFile = filepath.Join(t.TempDir(), "userlist.txt")
	if err := os.WriteFile(config.UsersFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// saslClient is the client's side of an authentication, message by message.
type saslClient struct {
	t        *testing.T
	conn     net.Conn
	frontend *pgproto3.Frontend
}

func newSASLClient(t *testing.T, conn net.Conn, user string) *saslClient {
	t.Helper()
	if _, err := conn.Write(startupPacket(3, 0, "user", user)); err != nil {
		t.Fatal(err)
	}
	return &saslClient{t, conn, pgproto3.NewFrontend(conn, conn)}
}

// offered reads the mechanisms.
func (c *saslClient) offered() []string {
	c.t.Helper()
	return slices.Clone(receiveAs[*pgproto3.AuthenticationSASL](c).AuthMechanisms)
}

func (c *saslClient) send(m pgproto3.FrontendMessage) {
	c.t.Helper()
	c.frontend.Send(m)
	if err := c.frontend.Flush(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *saslClient) first(mechanism, data string) {
	c.t.Helper()
	c.send(&pgproto3.SASLInitialResponse{AuthMechanism: mechanism, Data: []byte(data)})
}

func receiveAs[M pgproto3.BackendMessage](c *saslClient) M {
	c.t.Helper()
	m, err := c.frontend.Receive()
	if err != nil {
		c.t.Fatal(err)
	}
	got, ok := m.(M)
	if !ok {
		c.t.Fatalf("received %+v", m)
	}
	return got
}

// converse runs the exchange up to the client's proof, and returns the first
// challenge. The outcome is still to be read.
func (c *saslClient) converse(mechanism string, conversation *scram.ClientConversation) (challenge string) {
	c.t.Helper()
	step := func(in string) string {
		out, err := conversation.Step(in)
		if err != nil {
			c.t.Fatal(err)
		}
		return out
	}
	c.first(mechanism, step(""))
	challenge = string(receiveAs[*pgproto3.AuthenticationSASLContinue](c).Data)
	c.send(&pgproto3.SASLResponse{Data: []byte(step(challenge))})
	return challenge
}

func scramClient(t *testing.T, password string) *scram.Client {
	t.Helper()
	client, err := scram.SHA256.NewClient("", password, "")
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestSCRAM(t *testing.T) {
	s := startupWith(t, startupSCRAM(t, `"hashed" "`+verifierSesame+`"`+"\n"+
		`"plain" "sesame"`+"\n"+`"locked" ""`))
	for _, test := range []struct {
		user, password string
		welcome        bool
	}{
		{"hashed", "sesame", true},
		{"plain", "sesame", true},
		{"hashed", "Sesame", false},
		{"plain", "wrong", false},
		{"plain", "", false},
		{"locked", "sesame", false},
		{"locked", "", false},
		{"nobody", "sesame", false},
		{"nobody", "", false},
		{"Hashed", "sesame", false},
	} {
		t.Run(test.user+" "+test.password, func(t *testing.T) {
			t.Parallel()
			conn, done := startupClient(t, s, "tcp")
			client := newSASLClient(t, conn, test.user)
			if got := client.offered(); !slices.Equal(got, []string{"SCRAM-SHA-256"}) {
				t.Errorf("offered %q", got)
			}
			conversation := scramClient(t, test.password).NewConversation()
			challenge := client.converse("SCRAM-SHA-256", conversation)
			// Nothing up to here tells one kind of user from another.
			if fields := strings.Split(challenge, ","); len(fields) != 3 || len(fields[1]) != len("s=")+24 || fields[2] != "i=4096" {
				t.Errorf("challenge %q", challenge)
			}
			if !test.welcome {
				checkRefusal(t, conn, <-done, "28P01", `password authentication failed for user "`+test.user+`"`)
				return
			}
			final := receiveAs[*pgproto3.AuthenticationSASLFinal](client)
			if _, err := conversation.Step(string(final.Data)); err != nil || !conversation.Valid() {
				t.Errorf("the server did not prove itself: %v", err)
			}
			if got := <-done; got.err != nil || got.client.User != test.user {
				t.Errorf("%+v, %v", got.client, got.err)
			}
		})
	}
}

// A user's salt is the same each time, whether the user exists or not.
func TestSCRAMSaltIsStable(t *testing.T) {
	s := startupWith(t, startupSCRAM(t, `"plain" "sesame"`))
	salt := func(user string) string {
		conn, done := startupClient(t, s, "tcp")
		client := newSASLClient(t, conn, user)
		client.offered()
		client.first("SCRAM-SHA-256", "n,,n=,r=nonce")
		challenge := string(receiveAs[*pgproto3.AuthenticationSASLContinue](client).Data)
		conn.Close()
		if got := <-done; got.err != io.EOF {
			t.Fatalf("run = %v, want io.EOF", got.err)
		}
		return strings.Split(challenge, ",")[1]
	}
	for _, user := range []string{"plain", "nobody"} {
		before := salt(user)
		if err := s.ReloadUsers(); err != nil {
			t.Fatal(err)
		}
		if after := salt(user); after != before {
			t.Errorf("%s: salt %s, then %s", user, before, after)
		}
	}
	if salt("nobody") == salt("noone") {
		t.Error("two users have one salt")
	}
}

func TestSCRAMRefuses(t *testing.T) {
	s := startupWith(t, startupSCRAM(t, `"u" "sesame"`))
	first := func(mechanism, data string) func(*saslClient) {
		return func(c *saslClient) { c.first(mechanism, data) }
	}
	second := func(data string) func(*saslClient) {
		return func(c *saslClient) {
			c.first("SCRAM-SHA-256", "n,,n=,r=nonce")
			receiveAs[*pgproto3.AuthenticationSASLContinue](c)
			c.send(&pgproto3.SASLResponse{Data: []byte(data)})
		}
	}
	raw := func(b string) func(*saslClient) { return func(c *saslClient) { c.conn.Write([]byte(b)) } }
	for _, test := range []struct {
		name          string
		client        func(*saslClient)
		code, message string
	}{
		{"another mechanism", first("SCRAM-SHA-1", "n,,n=,r=x"), "08P01", "client selected an invalid SASL authentication mechanism"},
		{"PLUS in plain text", first("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=x"),
			"08P01", "client selected an invalid SASL authentication mechanism"},
		{"binding without PLUS", first("SCRAM-SHA-256", "p=tls-server-end-point,,n=,r=x"), "08P01", "malformed SCRAM message"},
		{"nothing said", first("SCRAM-SHA-256", ""), "08P01", "malformed SCRAM message"},
		{"nonsense", first("SCRAM-SHA-256", "a,b,c,d,e"), "08P01", "malformed SCRAM message"},
		{"no mechanism's end", raw("p\x00\x00\x00\x08SCRA"), "08P01", "malformed SCRAM message"},
		{"extension", first("SCRAM-SHA-256", "n,,m=x,n=,r=x"), "08P01", "malformed SCRAM message"},
		{"another identity", first("SCRAM-SHA-256", "n,a=root,n=,r=x"), "0A000", "client uses authorization identity, but it is not supported"},
		{"nonsense for a proof", second("x"), "08P01", "malformed SCRAM message"},
		{"another nonce", second("c=biws,r=other,p=AAAA"), "08P01", "malformed SCRAM message"},
		{"another binding", second("c=eSws,r=nonce,p=AAAA"), "28000", "SCRAM channel binding check failed"},
		{"a query", raw("Q\x00\x00\x00\x06;\x00"), "08P01", "expected SASL response, got message type 81"},
		{"too long", raw("p\x00\x00\x04\x05" + strings.Repeat("x", 2000)), "08P01", "invalid message length"},
		{"too short", raw("p\x00\x00\x00\x03"), "08P01", "invalid message length"},
		{"negative", raw("p\xff\xff\xff\xff"), "08P01", "invalid message length"},
		{"cut", func(c *saslClient) {
			c.conn.Write([]byte("p\x00\x00\x00\x20SCRAM"))
			c.conn.(*net.TCPConn).CloseWrite()
		}, "08P01", "incomplete startup packet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, done := startupClient(t, s, "tcp")
			client := newSASLClient(t, conn, "u")
			client.offered()
			test.client(client)
			checkRefusal(t, conn, <-done, test.code, test.message)
		})
	}
}

// Over TLS the exchange can be bound to the server's certificate.
func TestSCRAMChannelBinding(t *testing.T) {
	ca := certs.SelfSigned("ca")
	config := startupSCRAM(t, `"u" "sesame"`)
	config.TLS = startupOffer(ca)
	s := startupWith(t, config)
	for _, test := range []struct {
		name, mechanism string
		talk            func(*scram.Client, scram.ChannelBinding) *scram.ClientConversation
		code, message   string
	}{
		{name: "bound", mechanism: "SCRAM-SHA-256-PLUS", talk: (*scram.Client).NewConversationWithChannelBinding},
		{name: "not bound", mechanism: "SCRAM-SHA-256",
			talk: func(c *scram.Client, _ scram.ChannelBinding) *scram.ClientConversation { return c.NewConversation() }},
		{name: "bound to another certificate", mechanism: "SCRAM-SHA-256-PLUS",
			talk: func(c *scram.Client, b scram.ChannelBinding) *scram.ClientConversation {
				b.Data = slices.Clone(b.Data)
				b.Data[0] ^= 1
				return c.NewConversationWithChannelBinding(b)
			}, code: "28000", message: "SCRAM channel binding check failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, done := startupClient(t, s, "tcp")
			startupAnswered(t, conn, 'S')
			secured := startupSecured(conn, ca, "")
			client := newSASLClient(t, secured, "u")
			if got := client.offered(); !slices.Equal(got, []string{"SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"}) {
				t.Errorf("offered %q", got)
			}
			state := secured.ConnectionState()
			binding, err := scram.NewTLSServerEndpointBinding(&state)
			if err != nil {
				t.Fatal(err)
			}
			client.converse(test.mechanism, test.talk(scramClient(t, "sesame"), binding))
			got := <-done
			if test.code != "" {
				checkRefusal(t, secured, got, test.code, test.message)
			} else if got.err != nil {
				t.Error(got.err)
			}
		})
	}
	for _, test := range []struct{ name, mechanism, first string }{
		{"stripped offer", "SCRAM-SHA-256", "y,,n=,r=x"}, // the client was told that there is no PLUS
		{"PLUS without binding", "SCRAM-SHA-256-PLUS", "n,,n=,r=x"},
		{"binding without PLUS", "SCRAM-SHA-256", "p=tls-server-end-point,,n=,r=x"},
		{"another binding", "SCRAM-SHA-256-PLUS", "p=tls-exporter,,n=,r=x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, done := startupClient(t, s, "tcp")
			startupAnswered(t, conn, 'S')
			secured := startupSecured(conn, ca, "")
			client := newSASLClient(t, secured, "u")
			client.offered()
			client.first(test.mechanism, test.first)
			checkRefusal(t, secured, <-done, "08P01", "malformed SCRAM message")
		})
	}
}

// A certificate whose signature has no hash cannot be bound to; TLS works.
func TestSCRAMWithoutChannelBinding(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	config := startupSCRAM(t, `"u" "sesame"`)
	config.TLS = &tls.Config{Certificates: []tls.Certificate{certs.SelfSignedWith(key, "server")}}
	conn, done := startupClient(t, startupWith(t, config), "tcp")
	startupAnswered(t, conn, 'S')
	client := newSASLClient(t, tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), "u")
	if got := client.offered(); !slices.Equal(got, []string{"SCRAM-SHA-256"}) {
		t.Errorf("offered %q", got)
	}
	client.converse("SCRAM-SHA-256", scramClient(t, "sesame").NewConversation())
	if got := <-done; got.err != nil {
		t.Error(got.err)
	}
}

func TestStartupCertificates(t *testing.T) {
	ca, other := certs.SelfSigned("ca"), certs.SelfSigned("ca")
	config := startupConfig(Cert)
	config.TLS = startupOffer(ca)
	s := startupWith(t, config)
	for _, test := range []struct {
		name    string
		certs   []tls.Certificate
		code    string // "" for welcome, "alert" for a handshake that fails
		message string
	}{
		{name: "the user's", certs: []tls.Certificate{certs.SignedBy(ca, "ann")}},
		{name: "another user's", certs: []tls.Certificate{certs.SignedBy(ca, "bob")},
			code: "28000", message: `certificate authentication failed for user "ann"`},
		{name: "none", code: "28000", message: "connection requires a valid client certificate"},
		{name: "another CA's", certs: []tls.Certificate{certs.SignedBy(other, "ann")}, code: "alert"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client, done := startupClient(t, s, "tcp")
			startupAnswered(t, client, 'S')
			secured := startupSecured(client, ca, "")
			if test.code == "alert" {
				// crypto/tls keeps a certificate back that the server's CAs have not issued.
				secured = tls.Client(client, &tls.Config{RootCAs: certs.CertPool(ca), ServerName: "localhost",
					GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &test.certs[0], nil }})
			} else if len(test.certs) > 0 {
				secured = startupSecured(client, ca, "", test.certs...)
			}
			secured.Write(startupPacket(3, 0, "user", "ann"))
			got := <-done
			switch test.code {
			case "":
				if got.err != nil || got.client.User != "ann" {
					t.Errorf("%+v, %v", got.client, got.err)
				}
			case "alert":
				if got.err == nil || !strings.HasPrefix(got.err.Error(), "TLS handshake: ") {
					t.Errorf("run = %v", got.err)
				}
			default:
				checkRefusal(t, secured, got, test.code, test.message)
			}
		})
	}
	t.Run("no TLS", func(t *testing.T) {
		client, done := startupClient(t, s, "tcp")
		client.Write(startupPacket(3, 0, "user", "ann"))
		checkRefusal(t, client, <-done, "28000", "connection requires a valid client certificate")
	})
	t.Run("not verified", func(t *testing.T) {
		loose := config
		loose.TLS = startupOffer(ca)
		loose.TLS.ClientAuth = tls.RequireAnyClientCert
		client, done := startupClient(t, startupWith(t, loose), "tcp")
		startupAnswered(t, client, 'S')
		secured := startupSecured(client, ca, "", certs.SignedBy(ca, "ann"))
		secured.Write(startupPacket(3, 0, "user", "ann"))
		checkRefusal(t, secured, <-done, "28000", "connection requires a valid client certificate")
	})
}
