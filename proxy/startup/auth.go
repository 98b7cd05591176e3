package startup

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/xdg-go/scram"
)

// These are the SASL mechanisms that clients are offered. Package scram implements the server's side, with channel
// binding.
const (
	mechanismSCRAM     = "SCRAM-SHA-256"
	mechanismSCRAMPlus = "SCRAM-SHA-256-PLUS"

	// msgSASLResponse is the frame type of every authentication message of a client.
	msgSASLResponse = 'p'
)

// These are refusals of an authentication, with PostgreSQL's texts.
var (
	errMalformedSCRAM = wire.ProtocolViolation("malformed SCRAM message")
	errMechanism      = wire.ProtocolViolation("client selected an invalid SASL authentication mechanism")
	errAuthzID        = &wire.Error{Fatal: true, Code: "0A000",
		Message: "client uses authorization identity, but it is not supported"}
	errChannelBinding = &wire.Error{Fatal: true, Code: "28000", Message: "SCRAM channel binding check failed"}
	errNoClientCert   = &wire.Error{Fatal: true, Code: "28000", Message: "connection requires a valid client certificate"}
)

func errPassword(user string) *wire.Error {
	return &wire.Error{Fatal: true, Code: "28P01", Message: fmt.Sprintf("password authentication failed for user \"%s\"", user)}
}

func errClientCert(user string) *wire.Error {
	return &wire.Error{Fatal: true, Code: "28000", Message: fmt.Sprintf("certificate authentication failed for user \"%s\"", user)}
}

// authenticate checks that the client is the given user, by the configured method. The caller sends AuthenticationOk,
// together with the messages that follow it.
func (g *clientHandshake) authenticate(user string) error {
	switch g.method {
	case SCRAM:
		return g.authenticateSCRAM(user)
	case Cert:
		return g.authenticateCert(user)
	case Peer:
		return g.authenticatePeer(user)
	}
	return nil
}

// authenticateCert compares user with the CN of the client certificate that the TLS handshake has verified.
func (g *clientHandshake) authenticateCert(user string) error {
	if g.secured == nil {
		return errNoClientCert
	}
	state := g.secured.ConnectionState()
	if len(state.VerifiedChains) == 0 {
		return errNoClientCert
	}
	if state.PeerCertificates[0].Subject.CommonName != user {
		return errClientCert(user)
	}
	return nil
}

// authenticateSCRAM checks the client's password by a SCRAM exchange. Unknown users get the whole exchange too, so that
// they fail like a wrong password. The user name in the exchange is ignored.
func (g *clientHandshake) authenticateSCRAM(user string) error {
	credentials := g.users.Load().findCredentials(user, g.secret)
	server, err := scram.SHA256.NewServer(func(string) (scram.StoredCredentials, error) { return credentials, nil })
	if err != nil {
		return fmt.Errorf("SCRAM server: %w", err)
	}
	mechanisms, conversation := []string{mechanismSCRAM}, server.NewConversation()
	if binding, ok := g.channelBinding(); ok {
		mechanisms = []string{mechanismSCRAMPlus, mechanismSCRAM}
		conversation = server.NewConversationWithChannelBinding(binding)
	}

	if err := g.sendMessage(&pgproto3.AuthenticationSASL{AuthMechanisms: mechanisms}); err != nil {
		return err
	}
	payload, err := g.readAuthMessage()
	if err != nil {
		return err
	}
	var first pgproto3.SASLInitialResponse
	if err := first.Decode(payload); err != nil {
		return errMalformedSCRAM
	}
	if !slices.Contains(mechanisms, first.AuthMechanism) {
		return errMechanism
	}
	bound := strings.HasPrefix(string(first.Data), "p=")
	if bound != (first.AuthMechanism == mechanismSCRAMPlus) {
		return errMalformedSCRAM
	}
	challenge, err := conversation.Step(string(first.Data))
	if err != nil {
		return errMalformedSCRAM
	}
	if conversation.AuthzID() != "" {
		return errAuthzID
	}

	if err := g.sendMessage(&pgproto3.AuthenticationSASLContinue{Data: []byte(challenge)}); err != nil {
		return err
	}
	if payload, err = g.readAuthMessage(); err != nil {
		return err
	}
	return g.verifyProof(user, conversation, payload)
}

// verifyProof checks the client's SCRAM proof and answers it. After too many wrong proofs from the client's address,
// verifyProof refuses without a check.
func (g *clientHandshake) verifyProof(user string, conversation *scram.ServerConversation, proof []byte) error {
	var verdict string
	var err error
	_, heard := g.passwords.CheckGuess(g.raw.RemoteAddr(), time.Now(), func() bool {
		verdict, err = conversation.Step(string(proof))
		return verdict != scram.ErrInvalidProof
	})
	switch {
	case !heard:
		return ErrTooManyFailures
	case err == nil:
		return g.bufferMessage(&pgproto3.AuthenticationSASLFinal{Data: []byte(verdict)})
	case verdict == scram.ErrInvalidProof:
		g.delayFailure()
		return errPassword(user)
	case verdict == scram.ErrChannelBindingsDontMatch:
		return errChannelBinding
	}
	return errMalformedSCRAM
}

// channelBinding returns the data that bind the SCRAM exchange to this TLS connection (tls-server-end-point, RFC 5929).
// ok is false without TLS, and for a certificate whose signature has no hash.
func (g *clientHandshake) channelBinding() (binding scram.ChannelBinding, ok bool) {
	if g.secured == nil || g.cert == nil {
		return binding, false
	}
	leaf, err := x509.ParseCertificate(g.cert)
	if err != nil {
		return binding, false
	}
	binding, err = scram.NewTLSServerEndpointBinding(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}})
	return binding, err == nil
}

// authSecret is a secret from which salts are derived that must look random and not change. These are the salts of
// users that do not exist, or whose password is in plain text.
type authSecret [sha256.Size]byte

// minSaltSecret is the shortest secret of auth.salt_secret_file, in bytes. Everyone can see the salts, and could find a
// short secret by trial. For the same reason the secret does not depend on the users' passwords.
const (
	minSaltSecret = 32
	maxSaltSecret = 4096
)

// readAuthSecret returns a secret from a file. Without a file, readAuthSecret returns a random secret for this process.
func readAuthSecret(path string) (s authSecret, err error) {
	if path == "" {
		rand.Read(s[:])
		return s, nil
	}
	text, err := readFileUpTo(path, maxSaltSecret)
	if err == nil {
		text = bytes.TrimSpace(text)
		if len(text) < minSaltSecret {
			err = fmt.Errorf("%d bytes without white space: want %d at least, made at random (openssl rand -hex 32)", len(text), minSaltSecret)
		}
	}
	if err != nil {
		return s, fmt.Errorf("auth.salt_secret_file %s: %w", path, err)
	}
	return sha256.Sum256(text), nil
}

func (s authSecret) derive(purpose, user string) []byte {
	mac := hmac.New(sha256.New, s[:])
	mac.Write([]byte(purpose + "\x00" + user))
	return mac.Sum(nil)
}

// salt returns a SCRAM salt for a user, which is always the same, with the given length.
func (s authSecret) salt(user string, length int) string {
	salt := s.derive("salt", user)
	for len(salt) < length {
		salt = append(salt, s.derive("longer salt", string(salt))...)
	}
	return string(salt[:length])
}
