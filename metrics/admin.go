package metrics

import "github.com/prometheus/client_golang/prometheus"

// Admin counts connections of the admin listener, which serves metrics and health checks. Its methods may be called on
// nil.
type Admin struct{ closed prometheus.Counter }

// NewAdmin returns an Admin whose metrics are registered with reg.
func NewAdmin(reg prometheus.Registerer) *Admin {
	a := &Admin{closed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "dsql_admin_connections_closed_total",
		Help: "Connections of the admin address that were closed because too many were open.",
	})}
	reg.MustRegister(a.closed)
	return a
}

// CountConnectionClosed counts a connection of the admin listener that was closed because too many were open.
func (a *Admin) CountConnectionClosed() {
	if a != nil {
		a.closed.Inc()
	}
}
