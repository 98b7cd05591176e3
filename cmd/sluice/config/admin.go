package config

// Admin is the part of the configuration about the address that serves metrics and health probes.
type Admin struct {
	Address string // host:port, "" for nowhere
}

var adminKeys = []Key{
	{Name: "admin.address", Default: "127.0.0.1:9432", field: func(c *Config) any { return &c.Admin.Address },
		help: "Where /metrics, /startupz, /livez and /readyz are served, host:port; nothing there changes any state. Empty: nowhere."},
}

func (v *validator) checkAdmin() {
	address := v.config.Admin.Address
	v.require(address == "" || isValidAddress(address), "admin.address", "want host:port, such as 127.0.0.1:9432")
}
