package config

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/sluice-proxy/sluice/lease"
	"github.com/sluice-proxy/sluice/proxy"
)

// Config is the complete configuration of a process. Each field is a topic, and the topic's file has its keys. Load
// returns a Config. A Config does not change after Load.
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
	// Proxy is the configuration of package proxy. Its fields belong to several topics: some are keys, and others are
	// computed from keys.
	Proxy proxy.Config

	// values and origins have one entry for each configuration key: the decoded value in force and its source.
	values  map[string]any
	origins map[string]string
	// Warnings are messages for the log about unusual values that have no effect.
	Warnings []string
}

// SourceOf returns the source of a key's value, for example "default" or "flag --pins-max".
func (c *Config) SourceOf(key string) string { return c.origins[key] }

// Value returns the decoded value of a key, as its source gave it.
func (c *Config) Value(key string) any { return c.values[key] }

// deriveFields sets the fields of the configuration that are computed from keys. The values of all keys must be set.
func (c *Config) deriveFields() {
	c.deriveBackend()
	c.deriveReservoir()
	c.deriveClient()
	c.deriveSession()
	c.deriveDDL()
	c.deriveRewrite()
	c.deriveRetry()
	c.deriveLease()
}

// validate returns all invalid values in one error. Each line begins with a key. The checks of the topics come first,
// in the order of the output. Then each package checks its Config.
func (c *Config) validate() error {
	v := &validator{config: c}
	for _, check := range []func(){
		v.checkListenAddress, v.checkAdmin, v.checkListeners, v.checkAuth, v.checkTLS, v.checkBackend, v.checkLease, v.checkRewrite, v.checkClient,
		v.checkCarryOut, v.checkRewrittenDDL, v.checkDDL, v.checkAdvisoryLocks, v.checkSilenceTimeout, v.checkDrain, v.checkRuntime,
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

// validator collects errors of the configuration, of the form "key: value: remedy".
type validator struct {
	config *Config
	errs   []error
}

// require adds an error of the configuration key name, unless ok is true.
func (v *validator) require(ok bool, name, remedy string) {
	if !ok {
		shown := KeyByName(name).formatValue(v.config.values[name])
		v.errs = append(v.errs, fmt.Errorf("%s: %s: %s", name, shown, remedy))
	}
}
