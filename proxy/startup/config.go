package startup

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// AuthMethod is the way in which a client proves its identity.
type AuthMethod string

const (
	// Trust is the method that requires no proof.
	Trust AuthMethod = "trust"
	// SCRAM is the method SCRAM-SHA-256, by passwords in a users file.
	SCRAM AuthMethod = "scram-sha-256"
	// Cert is the method that requires a TLS client certificate whose CN is the user.
	Cert AuthMethod = "cert"
	// Peer is the method that asks the kernel for the user of the process at the Unix socket.
	Peer AuthMethod = "peer"
)

// Config configures the startup of clients. The zero Config is not valid.
type Config struct {
	// Timeout bounds a client's startup, authentication included.
	Timeout time.Duration
	// Method is the way in which clients prove their identity: Trust, SCRAM, Cert or Peer.
	Method AuthMethod
	// UsersFile is the path of a file in the form of PgBouncer's userlist.txt, with SCRAM verifiers.
	UsersFile string
	// PeerMap has entries of the form osuser=user, for the method Peer.
	PeerMap []string
	// SaltSecretFile is the path of a file with at least 32 bytes, from which the salts of unknown users are derived.
	// Without SaltSecretFile, these salts change with each start of the process.
	SaltSecretFile string
	// TLS is the configuration with which clients are offered TLS, or nil. The daemon reloads certificates by the
	// configuration's GetConfigForClient.
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
	if _, err := parsePeerMap(c.PeerMap); err != nil {
		errs = append(errs, err)
	}
	check(!c.TLSRequired || c.TLS != nil, "tls.required", "true needs tls.cert_file and tls.key_file")
	return errors.Join(errs...)
}
