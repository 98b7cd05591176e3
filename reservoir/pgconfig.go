package reservoir

import (
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgconn"
)

// maxStartupBody bounds a message of the server's startup. The longest real
// ones are error texts and parameters.
const maxStartupBody = 1 << 20

// explicit names every parameter that pgconn would otherwise take from a PG*
// variable, ~/.pgpass or ~/.postgresql. The password keeps it from reading a
// password file.
const explicit = "host=none port=1 user=none database=none password=none passfile='' connect_timeout=0 " +
	"sslmode=disable sslrootcert='' sslcert='' sslkey='' sslpassword='' sslcertmode=allow sslsni=1 sslnegotiation=postgres " +
	"target_session_attrs=any min_protocol_version=3.0 max_protocol_version=3.0 channel_binding=prefer require_auth='' " +
	"options='' application_name='' timezone=''"

// bareConfig is a pgconn.Config that holds nothing of the user's world: what a
// backend is dialled with is Sluice's configuration alone. PGOPTIONS, say,
// would become a startup parameter, which is fatal on DSQL.
//
// pgconn takes only what its ParseConfig made, and that reads the environment,
// so every field that can come from there is set here again.
func bareConfig() (*pgconn.Config, error) {
	cfg, err := pgconn.ParseConfig(explicit)
	if err != nil {
		// PGSERVICE names a service that is not to be found, and a connection
		// string cannot say "no service". It can name another.
		cfg, err = parseWithService()
	}
	if err != nil {
		return nil, fmt.Errorf("prepare pgconn: %w", err)
	}
	cfg.Host, cfg.Port, cfg.Database, cfg.User, cfg.Password = "", 0, "", "", ""
	cfg.TLSConfig, cfg.Fallbacks, cfg.SSLNegotiation, cfg.SSLCertMode = nil, nil, "postgres", "allow"
	cfg.ConnectTimeout = 0
	cfg.RuntimeParams = map[string]string{}
	cfg.KerberosSrvName, cfg.KerberosSpn = "", ""
	cfg.ValidateConnect, cfg.AfterConnect, cfg.AfterNetConnect = nil, nil, nil
	cfg.OnNotice, cfg.OnNotification, cfg.OAuthTokenProvider = nil, nil, nil
	cfg.MinProtocolVersion, cfg.MaxProtocolVersion = "3.0", "3.0"
	cfg.ChannelBinding, cfg.RequireAuth = "prefer", ""
	cfg.MaxProtocolMessageBodyLen = maxStartupBody
	return cfg, nil
}

// parseWithService overrides PGSERVICE by an empty service of our own. Its file
// is a pipe: a container may have no place to write one.
func parseWithService() (*pgconn.Config, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	_, err = w.WriteString("[none]\n")
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	return pgconn.ParseConfig(fmt.Sprintf("%s service=none servicefile=/dev/fd/%d", explicit, r.Fd()))
}
