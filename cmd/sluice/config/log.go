package config

// Log is the part of the configuration that selects the level and the format of the log.
type Log struct {
	Level, Format string
}

var logKeys = []Key{
	{Name: "log.level", Default: "info", field: func(c *Config) any { return &c.Log.Level },
		Choices: []string{"debug", "info", "warn", "error"},
		help:    "Least important lines that are logged."},
	{Name: "log.sessions", Default: "unusual", field: func(c *Config) any { return (*string)(&c.Proxy.LogSessions) },
		Choices: []string{"all", "unusual", "none"},
		help:    "Client sessions to log. all: the start and the end of each. unusual: the end, unless the client left voluntarily between two transactions. none: no session. Refused startups are always logged, and the metrics count all sessions."},
	{Name: "log.format", Default: "text", field: func(c *Config) any { return &c.Log.Format },
		Choices: []string{"text", "json"},
		help:    "Form of the log on standard error."},
}
