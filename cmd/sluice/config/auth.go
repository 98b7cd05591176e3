package config

import "github.com/sluice-proxy/sluice/proxy/startup"

// Auth is the part of the configuration that selects how clients authenticate. The other keys below auth have their
// fields in startup.Config.
type Auth struct {
	AllowRemoteTrust bool
}

var authKeys = []Key{
	{Name: "auth.method", Default: "trust", field: func(c *Config) any { return (*string)(&c.Proxy.Startup.Method) },
		Choices: []string{"trust", "scram-sha-256", "cert", "peer"},
		help:    "How clients authenticate. trust: not at all. cert: by a client certificate whose CN is the user. peer: by the owner of the process at the Unix socket (Linux; without listen.address)."},
	{Name: "auth.peer_map", Default: []string{}, field: func(c *Config) any { return &c.Proxy.Startup.PeerMap },
		help: "For auth.method peer: the users as which a user of the operating system may connect, each as osuser=user, by name or number (1000=app). Without an entry only the user of the same name is allowed."},
	{Name: "auth.users_file", Default: "", field: func(c *Config) any { return &c.Proxy.Startup.UsersFile },
		help: "Users and SCRAM verifiers in the form of PgBouncer's userlist.txt. Reloaded on change and on SIGHUP."},
	{Name: "auth.salt_secret_file", Default: "", field: func(c *Config) any { return &c.Proxy.Startup.SaltSecretFile },
		help: "File of 32 or more random bytes, the same for all sidecars. SCRAM salts of unknown users are derived from it, so that they do not change. Empty: they change at each start, which reveals that a user is unknown."},
	{Name: "auth.allow_remote_trust", Default: false, field: func(c *Config) any { return &c.Auth.AllowRemoteTrust },
		help: "Allow auth.method trust on a listener that other machines can reach."},
}

func (v *validator) checkAuth() {
	c := v.config
	v.require(c.Proxy.Startup.Method != startup.Peer || c.Listen.Address == "" && c.Listen.UnixSocket != "",
		"auth.method", "it is for the Unix socket alone: set listen.unix_socket, and listen.address to nothing")
	v.require(len(c.Proxy.Startup.PeerMap) == 0 || c.Proxy.Startup.Method == startup.Peer,
		"auth.peer_map", "it is for auth.method peer; leave it empty")
	v.require(c.Proxy.Startup.Method != startup.Trust || !isValidAddress(c.Listen.Address) || isLoopback(c.Listen.Address) || c.Auth.AllowRemoteTrust,
		"listen.address", "other machines could connect without a password: set auth.method, "+
			"or listen on 127.0.0.1, or allow it with auth.allow_remote_trust")
}
