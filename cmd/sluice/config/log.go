package config

// Log is the form of the log.
type Log struct {
	Level, Format string
}

var logKeys = []Key{
	{Name: "log.level", Default: "info", field: func(c *Config) any { return &c.Log.Level },
		Choices: []string{"debug", "info", "warn", "error"},
		help:    "Least important lines that are logged."},
	{Name: "log.sessions", Default: "unusual", field: func(c *Config) any { return (*string)(&c.Proxy.LogSessions) },
		Choices: []string{"all", "unusual", "none"},
		help:    "Sessions of clients that are logged: all have a line at their start and one at their end; unusual have one at an end that is not a client's who left of its own accord, between two transactions; none have any. Startups that are refused are logged in any case, and the metrics count all."},
	{Name: "log.format", Default: "text", field: func(c *Config) any { return &c.Log.Format },
		Choices: []string{"text", "json"},
		help:    "Form of the log on standard error."},
}
