package startup

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// AuthMethod is how a client proves who it is.
type AuthMethod string

const (
	// Trust asks for nothing.
	Trust AuthMethod = "trust"
	// SCRAM asks for SCRAM-SHA-256 against a users file.
	SCRAM AuthMethod = "scram-sha-256"
	// Cert asks for a TLS client certificate whose CN is the user.
	Cert AuthMethod = "cert"
	// Peer asks the kernel whose process is at the Unix socket.
	Peer AuthMethod = "peer"
)

// Config is how clients begin. The zero value is not valid.
type Config struct {
	// Timeout bounds a client's startup, authentication included.
	Timeout time.Duration
	// Method is how clients prove who they are.
	Method AuthMethod
	// UsersFile in PgBouncer's userlist.txt form, with SCRAM verifiers.
	UsersFile string
	// PeerMap has entries osuser=user, for Peer.
	PeerMap []string
	// SaltSecretFile has 32 bytes or more that the salts of unknown users are made of; "": they
	// change with each start of the process.
	SaltSecretFile string
	// TLS is offered when non-nil. cmd/sluice/daemon reloads certificates behind its
	// GetConfigForClient.
	TLS *tls.Config
	// TLSRequired refuses plain clients that do not come by Unix socket.
	TLSRequired bool
	// Replication lets clients in that ask for a replication connection.
	Replication bool
}

// Validate reports every bad value at once, by the names of the configuration's keys.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
		}
	}
	check(c.Timeout > 0, "listen.startup_timeout", "%s: want more than 0", c.Timeout)
	switch c.Method {
	case Trust, SCRAM, Cert, Peer:
	default:
		check(false, "auth.method", "%q: want trust, scram-sha-256, cert or peer", c.Method)
	}
	check(c.Method != SCRAM || c.UsersFile != "", "auth.users_file", "empty: scram-sha-256 needs a users file")
	check(c.Method != Cert || c.TLS != nil, "auth.method", "cert needs tls.cert_file, tls.key_file and tls.client_ca_file")
	check(c.Method != Peer || PeersKnown, "auth.method", "peer needs Linux, which tells whose process is at a Unix socket")
	if _, err := newPeers(c.PeerMap); err != nil {
		errs = append(errs, err)
	}
	check(!c.TLSRequired || c.TLS != nil, "tls.required", "true needs tls.cert_file and tls.key_file")
	return errors.Join(errs...)
}
