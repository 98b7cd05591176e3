package reservoir

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sluice-proxy/sluice/metrics"
)

// SSLModes are the values of backend.sslmode, for backend.kind postgres, with libpq's meanings.
var SSLModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// ChannelBindings are the values of backend.channel_binding, with libpq's meanings.
var ChannelBindings = []string{"disable", "prefer", "require"}

// endpointForm matches the host name of a DSQL cluster, and those of PrivateLink endpoints (dsql-fnh4), as AWS's
// connectors do. The group is the region.
var endpointForm = regexp.MustCompile(`^[a-z0-9-]+\.dsql(?:-[a-z0-9]+)?\.([a-z0-9-]+)\.on\.aws$`)

// DialConfig is the configuration of a Dialer. It names the server, the role and the database.
type DialConfig struct {
	Kind string // dsql or postgres
	// Endpoint is the server's name, which the server's certificate must contain. For backend.kind dsql, Endpoint is
	// the cluster's name, for which tokens are signed.
	Endpoint string
	// Address is the host to dial. An empty Address means Endpoint.
	Address string
	Port    int
	// Region is the cluster's AWS region. An empty Region means the region that Endpoint names.
	Region string
	// CAFile is a file with the authorities that may sign the server's certificate. An empty CAFile means the system's
	// authorities.
	CAFile   string
	User     string
	Database string
	Password string // kind postgres; may be empty
	SSLMode  string // kind postgres; one of SSLModes
	// ChannelBinding says whether SCRAM uses channel binding, for backend.kind postgres. The value is one of
	// ChannelBindings; "" means prefer.
	ChannelBinding string

	// Credentials are the AWS credentials that sign tokens for backend.kind dsql. The provider should cache them.
	Credentials aws.CredentialsProvider
	// Wrap, if not nil, wraps the TCP connection before TLS begins.
	Wrap func(net.Conn) net.Conn
	// Timeout bounds the time of a dial.
	Timeout time.Duration
	// KeepAlive is the time for which the server's host may be silent on an idle connection, or 0 for no limit. The
	// function KeepAliveSettings gives the kernel's settings.
	KeepAlive time.Duration
	// Metrics may be nil. Otherwise it counts the steps of dials.
	Metrics *metrics.Reservoir
}

// AllowsTLSDowngrade reports whether an attacker on the network could remove TLS unnoticed. That is possible if the
// server is on another host, and a connection without TLS is tried as well.
func (c DialConfig) AllowsTLSDowngrade() bool {
	host := c.host()
	near := host == "localhost" || net.ParseIP(host).IsLoopback()
	return c.Kind == KindPostgres && !near && (c.SSLMode == "allow" || c.SSLMode == "prefer") && c.ChannelBinding != "require"
}

// Validate returns all faults of the configuration in one error. Validate does not use Credentials and opens no file.
func (c DialConfig) Validate() error {
	var errs []error
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
		}
	}
	switch c.Kind {
	case KindDSQL:
		check(c.Endpoint != "", "backend.endpoint", "empty: want the cluster's <id>.dsql.<region>.on.aws")
		check(c.Endpoint == "" || c.Region != "" || endpointForm.MatchString(c.Endpoint), "backend.endpoint",
			"%q: want <id>.dsql.<region>.on.aws, or backend.region beside it", c.Endpoint)
		check(c.Password == "", "backend.password", "set: kind dsql makes its own from AWS credentials; remove it")
	case KindPostgres:
		check(c.host() != "", "backend.address", "empty: want the server's host, here or in backend.endpoint")
		check(c.ChannelBinding == "" || slices.Contains(ChannelBindings, c.ChannelBinding), "backend.channel_binding",
			"%q: want one of %s", c.ChannelBinding, strings.Join(ChannelBindings, ", "))
		check(c.ChannelBinding != "require" || c.SSLMode != "disable", "backend.channel_binding", "require: needs TLS; set backend.sslmode to verify-full")
		check(slices.Contains(SSLModes, c.SSLMode), "backend.sslmode", "%q: want one of %s", c.SSLMode, strings.Join(SSLModes, ", "))
	default:
		check(false, "backend.kind", "%q: want dsql or postgres", c.Kind)
	}
	check(!strings.ContainsAny(c.host(), "/,"), "backend.address", "%q: want one host name or IP address", c.host())
	check(c.Port > 0 && c.Port < 1<<16, "backend.port", "%d: want 1 to 65535", c.Port)
	check(c.User != "", "backend.user", "empty: want the database role")
	check(c.Database != "", "backend.database", "empty: want the database's name")
	check(c.KeepAlive >= 0, "backend.tcp_keepalive", "%v: want 0 (off) or more", c.KeepAlive)
	check(c.Timeout > 0, "reservoir.dial_timeout", "%v: want more than 0", c.Timeout)
	return errors.Join(errs...)
}

// host returns the name or address of the host to dial.
func (c DialConfig) host() string {
	if c.Address != "" {
		return c.Address
	}
	return c.Endpoint
}

// certificateName returns the server name that a certificate must contain.
func (c DialConfig) certificateName() string {
	if c.Endpoint != "" {
		return c.Endpoint
	}
	return c.Address
}

func (c DialConfig) region() string {
	if c.Region != "" {
		return c.Region
	}
	if m := endpointForm.FindStringSubmatch(c.Endpoint); m != nil {
		return m[1]
	}
	return ""
}

// tlsConfigs returns the TLS configurations to try, in this order. A nil element is a connection without TLS.
func (c DialConfig) tlsConfigs() ([]*tls.Config, error) {
	if c.Kind == KindPostgres && c.SSLMode == "disable" {
		return []*tls.Config{nil}, nil
	}
	var roots *x509.CertPool // nil means the system's
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("backend.ca_file: %w", err)
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("backend.ca_file: %s: no PEM certificate in it", c.CAFile)
		}
	}
	full := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.certificateName(), RootCAs: roots}
	if c.Kind == KindDSQL {
		return []*tls.Config{full}, nil
	}
	unverified := full.Clone()
	unverified.InsecureSkipVerify = true
	chain := unverified.Clone()
	chain.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(s, roots) }
	switch c.SSLMode {
	case "allow":
		return []*tls.Config{nil, unverified}, nil
	case "prefer":
		return []*tls.Config{unverified, nil}, nil
	case "require":
		if roots != nil { // as in libpq, require with a root file means verify-ca
			return []*tls.Config{chain}, nil
		}
		return []*tls.Config{unverified}, nil
	case "verify-ca":
		return []*tls.Config{chain}, nil
	}
	return []*tls.Config{full}, nil
}

// verifyChain implements the sslmode verify-ca: it checks the certificate's authority but not its name.
func verifyChain(s tls.ConnectionState, roots *x509.CertPool) error {
	intermediates := x509.NewCertPool()
	for _, certificate := range s.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates})
	return err
}
