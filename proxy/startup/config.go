package startup

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// AuthMethod is how a client proves its identity.
type AuthMethod string

const (
	// Trust requires no proof.
	Trust AuthMethod = "trust"
	// SCRAM requires SCRAM-SHA-256 with a users file.
	SCRAM AuthMethod = "scram-sha-256"
	// Cert requires a TLS client certificate whose CN is the user.
	Cert AuthMethod = "cert"
	// Peer asks the kernel for the user of the process at the Unix socket.
	Peer AuthMethod = "peer"
)

// Config configures the startup of clients. The zero value is not valid.
type Config struct {
	// Timeout bounds a client's startup, authentication included.
	Timeout time.Duration
	// Method is how clients prove their identity.
	Method AuthMethod
	// UsersFile is a file in the form of PgBouncer's userlist.txt, with SCRAM verifiers.
	UsersFile string
	// PeerMap has entries osuser=user, for Peer.
	PeerMap []string
	// SaltSecretFile has at least 32 bytes from which salts of unknown users are derived. Without
	// it, these salts change with each start of the process.
	SaltSecretFile string
	// TLS is offered if not nil. cmd/sluice/daemon reloads certificates by its GetConfigForClient.
	TLS *tls.Config
	// TLSRequired refuses clients without TLS, except at the Unix socket.
	TLSRequired bool
	// Replication accepts clients that request a replication connection.
	Replication bool
}

// Validate returns all faults of the configuration in one error, by configuration key.
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
