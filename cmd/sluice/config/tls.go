package config

import "github.com/sluice-proxy/sluice/proxy/startup"

// TLS is the part of the configuration that names the PEM files for clients' TLS.
type TLS struct {
	Cert, Key, ClientCA string
}

var tlsKeys = []Key{
	{Name: "tls.cert_file", Default: "", field: func(c *Config) any { return &c.TLS.Cert },
		help: "Certificate chain (PEM) offered to clients. Empty: TLS is not offered. Reloaded on change and on SIGHUP."},
	{Name: "tls.key_file", Default: "", field: func(c *Config) any { return &c.TLS.Key },
		help: "Private key (PEM) of tls.cert_file."},
	{Name: "tls.client_ca_file", Default: "", field: func(c *Config) any { return &c.TLS.ClientCA },
		help: "Authorities (PEM) that client certificates are verified against."},
	{Name: "tls.required", Default: false, field: func(c *Config) any { return &c.Proxy.Startup.TLSRequired },
		help: "Refuse clients that come by TCP without TLS."},
}

func (v *validator) checkTLS() {
	c := v.config
	v.require(c.TLS.Cert == "" || c.TLS.Key != "", "tls.key_file", "tls.cert_file needs its key")
	v.require(c.TLS.Key == "" || c.TLS.Cert != "", "tls.cert_file", "tls.key_file needs its certificate")
	v.require(c.TLS.ClientCA == "" || c.TLS.Cert != "", "tls.client_ca_file", "needs tls.cert_file and tls.key_file")
	v.require(c.Proxy.Startup.Method != startup.Cert || c.TLS.ClientCA != "", "tls.client_ca_file",
		"auth.method cert needs the authorities of the clients' certificates")
}
