package config

// Runtime is the part of the configuration about the process itself, such as its CPUs.
type Runtime struct {
	Procs int // CPUs that run Go code; 0 lets the daemon choose
}

var runtimeKeys = []Key{
	{Name: "relay.plain_conn", Default: false, field: func(c *Config) any { return &c.Proxy.PlainConn },
		help: "Use Go's ordinary socket calls instead of the raw ones: slower, for comparison and for trouble."},

	{Name: "runtime.procs", Default: 0, field: func(c *Config) any { return &c.Runtime.Procs },
		help: "CPUs that run Go code. 0: 1 on machines with two CPUs or fewer, else Go's choice. A GOMAXPROCS variable wins."},
}

func (v *validator) checkRuntime() {
	v.require(v.config.Runtime.Procs >= 0, "runtime.procs", "want 0 (automatic) or more")
}
