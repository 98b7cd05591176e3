package config

import (
	"math"
	"runtime/debug"
	"strconv"
	"time"
)

// Session is the part of the configuration that limits what a session may hold: backends, prepared statements, rows,
// memory. Further keys below session are fields of proxy.Config, which checks them.
type Session struct {
	ForwardCancel string // auto, true or false
}

var sessionKeys = []Key{
	{Name: "pins.max", Default: 50, field: func(c *Config) any { return &c.Proxy.MaxPins },
		help: "Sessions that may keep a backend (LISTEN, temporary tables, session pairing, ...); more get 53300."},

	{Name: "cancel.grace", Default: time.Second, field: func(c *Config) any { return &c.Proxy.CancelGrace },
		help: "How long a cancel may stay without effect before Sluice gives up the backend to end the statement."},
	{Name: "cancel.forward", Default: "auto", field: func(c *Config) any { return &c.Session.ForwardCancel },
		Choices: []string{"auto", "true", "false"},
		help:    "Send cancels on to the backend. auto: for kind postgres only, DSQL ignores them."},

	{Name: "settings.ignored", Default: defaultIgnoredSettings, field: func(c *Config) any { return &c.Proxy.IgnoredSettings },
		help: "Settings that DSQL refuses and that Sluice answers itself without effect; name, or name=value for that value only. Replaces the default list."},
	{Name: "settings.reapply_application_name", Default: false, field: func(c *Config) any { return &c.Proxy.ReapplyApplicationName },
		help: "Carry each client's application_name to its backends (a round trip whenever it differs)."},

	{Name: "prepared.per_backend", Default: 200, field: func(c *Config) any { return &c.Proxy.PreparedPerBackend },
		help: "Maximum number of prepared statements on one backend. The least recently used one is removed first."},
	{Name: "prepared.per_client", Default: 5000, field: func(c *Config) any { return &c.Proxy.PreparedPerClient },
		help: "Named statements of one client."},
	{Name: "prepared.bytes_per_client", Default: 16 << 20, field: func(c *Config) any { return &c.Proxy.PreparedBytesPerClient },
		help: "Bytes that the texts of one client's named statements may take, with their plans; a Parse beyond gets 53200."},
	{Name: "prepared.total_bytes", Default: 256 << 20, field: func(c *Config) any { return &c.Proxy.PreparedTotalBytes },
		help: "Bytes that the texts of all prepared statements and the descriptions of their columns may take, those that are only remembered included: of these the least recently used go first. Beyond, a Parse or a Describe gets 53200."},
	{Name: "prepared.texts", Default: 5000, field: func(c *Config) any { return &c.Proxy.PreparedTexts },
		help: "Statement descriptions remembered for all clients together."},
	{Name: "prepared.describe_memory", Default: 2 * time.Second, field: func(c *Config) any { return &c.Proxy.DescribeMemory },
		help: "Answer Describe from memory for so long after the server has last shown that the answer holds: saves lib/pq a round trip. 0: always ask."},

	{Name: "cursor.stored_bytes", Default: 16 << 20, field: func(c *Config) any { return &c.Proxy.StoredBytes },
		help: "Memory for the rows of one client's cursors WITH HOLD, which outlive their transaction. A cursor of more rows fails with 54000. 0: none. Kind dsql only."},
	{Name: "cursor.stored_total_bytes", Default: 256 << 20, field: func(c *Config) any { return &c.Proxy.StoredTotalBytes },
		help: "The same for all clients together."},

	{Name: "memory.bytes_per_client", Default: 24 << 20, field: func(c *Config) any { return &c.Proxy.MemoryBytesPerClient },
		help: "Bytes that one client may have Sluice remember: settings, savepoints, names and values of portals, prepared statements, rows of cursors WITH HOLD, data that are being read. Beyond, a request gets 53200."},
	{Name: "memory.total_bytes", Default: 256 << 20, field: func(c *Config) any { return &c.Proxy.MemoryTotalBytes },
		help: "The same for all clients together, beside prepared.total_bytes and cursor.stored_total_bytes. Of GOMEMLIMIT it is a quarter at most."},
}

// defaultIgnoredSettings are settings that clients send without needing an effect. DSQL refuses each of them (0A000,
// fatal at startup), and none changes the meaning or the result of a statement on DSQL. DSQL has no locks, no row
// security, one kind of durability and no planner memory.
//
// pg_dump, psql scripts and connection pools of common drivers send these settings. standard_conforming_strings
// is always on, and literals would have another meaning with off; therefore only "on" is listed.
var defaultIgnoredSettings = []string{
	"check_function_bodies",
	"client_connection_check_interval",
	"client_min_messages",
	"default_table_access_method",
	"default_tablespace",
	"jit",
	"lock_timeout",
	"maintenance_work_mem",
	"row_security",
	"standard_conforming_strings=on",
	"synchronize_seqscans",
	"synchronous_commit",
	"tcp_keepalives_count",
	"tcp_keepalives_idle",
	"tcp_keepalives_interval",
	"tcp_user_timeout",
	"work_mem",
	"xmloption",
}

func (c *Config) deriveSession() {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		c.Proxy.MemoryLimit = limit
	}
	switch c.Session.ForwardCancel {
	case "auto":
		c.Proxy.ForwardCancel = !c.isDSQL()
	default:
		c.Proxy.ForwardCancel, _ = strconv.ParseBool(c.Session.ForwardCancel) // the key's choices are booleans
	}
}

// storesApplicationName reports whether only Sluice stores each client's application_name, and no server does.
func (c *Config) storesApplicationName() bool {
	return !c.isDSQL() && !c.usesDedicatedBackends() && !c.Proxy.ReapplyApplicationName
}
