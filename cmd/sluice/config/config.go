package config

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/sluice-proxy/sluice/lease"
	"github.com/sluice-proxy/sluice/proxy"
)

// Config is the complete configuration of a process. Each field is a topic, and the topic's file has its keys.
// Load returns a Config, which does not change afterwards.
type Config struct {
	Listen      Listen
	TLS         TLS
	Auth        Auth
	Admin       Admin
	Backend     Backend
	Reservoir   Reservoir
	Client      Client
	Drain       Drain
	Credentials Credentials
	Session     Session
	Rewrite     Rewrite
	DDL         DDL
	Retry       Retry
	Runtime     Runtime
	Log         Log
	Lease       lease.Config
	// Proxy has fields of several topics: some are keys, and others follow from keys.
	Proxy proxy.Config

	// values and origins have one entry for each key: the decoded value in force and its source.
	values  map[string]any
	origins map[string]string
	// Warnings are messages for the log about unusual values without an effect.
	Warnings []string
}

// Origin returns the source of a key's value, for example "default" or "flag --pins-max".
func (c *Config) Origin(key string) string { return c.origins[key] }

// Value returns the decoded value of a key, as its source gave it.
func (c *Config) Value(key string) any { return c.values[key] }

// derive sets the fields that follow from keys. All keys must be set before.
func (c *Config) derive() {
	c.deriveBackend()
	c.deriveReservoir()
	c.deriveClient()
	c.deriveSession()
	c.deriveDDL()
	c.deriveRewrite()
	c.deriveRetry()
	c.deriveLease()
}

// validate returns all invalid values; each error begins with its key. The checks of the topics come first, in
// the order of the output. Then each package checks its Config.
func (c *Config) validate() error {
	v := &validation{config: c}
	for _, check := range []func(){
		v.listenAddress, v.admin, v.listen, v.auth, v.tls, v.backend, v.lease, v.rewrite, v.client,
		v.carryOut, v.rewrittenDDL, v.ddl, v.advisoryLocks, v.silence, v.drain, v.runtime,
	} {
		check()
	}
	server := c.Proxy
	if c.TLS.Cert != "" {
		server.Startup.TLS = &tls.Config{} // the daemon reads the files
	}
	return errors.Join(append(v.errs,
		server.Validate(), c.Backend.Validate(), c.Reservoir.Validate(), c.Lease.Validate(), c.Rewrite.Validate())...)
}

// validation collects errors of the form "key: value: remedy".
type validation struct {
	config *Config
	errs   []error
}

// want adds an error of the key unless ok.
func (v *validation) want(ok bool, name, remedy string) {
	if !ok {
		shown := KeyNamed(name).show(v.config.values[name])
		v.errs = append(v.errs, fmt.Errorf("%s: %s: %s", name, shown, remedy))
	}
}
