package reservoir

import (
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgconn"
)

// maxStartupBody bounds a message of the server during the startup. The longest real messages are error texts and
// parameters.
const maxStartupBody = 1 << 20

// explicitSettings is a connection string with every parameter that pgconn would otherwise take from a PG* variable,
// ~/.pgpass or ~/.postgresql. Because the string has a password, pgconn reads no password file.
const explicitSettings = "host=none port=1 user=none database=none password=none passfile='' connect_timeout=0 " +
	"sslmode=disable sslrootcert='' sslcert='' sslkey='' sslpassword='' sslcertmode=allow sslsni=1 sslnegotiation=postgres " +
	"target_session_attrs=any min_protocol_version=3.0 max_protocol_version=3.0 channel_binding=prefer require_auth='' " +
	"options='' application_name='' timezone=''"

// configWithoutEnv returns a pgconn.Config without any setting of the environment. Sluice's configuration alone
// decides: PGOPTIONS, for example, would become a startup parameter, which is fatal on DSQL.
//
// pgconn accepts only a result of its ParseConfig, which reads the environment. So configWithoutEnv sets every field
// again that can come from the environment.
func configWithoutEnv() (*pgconn.Config, error) {
	cfg, err := pgconn.ParseConfig(explicitSettings)
	if err != nil {
		// This call replaces the service that the variable PGSERVICE names, if it does not exist, by an empty
		// service. A connection string cannot unset PGSERVICE, but can name another service.
		cfg, err = parseWithEmptyService()
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

// parseWithEmptyService parses explicitSettings with an empty service that replaces PGSERVICE. The service file is a
// pipe, because a container may have no writable place.
func parseWithEmptyService() (*pgconn.Config, error) {
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
	return pgconn.ParseConfig(fmt.Sprintf("%s service=none servicefile=/dev/fd/%d", explicitSettings, r.Fd()))
}
