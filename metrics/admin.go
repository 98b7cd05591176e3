package metrics

import "github.com/prometheus/client_golang/prometheus"

// Admin counts what the admin address does. Its verbs may be called on nil.
type Admin struct{ closed prometheus.Counter }

// NewAdmin registers with reg.
func NewAdmin(reg prometheus.Registerer) *Admin {
	a := &Admin{closed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "dsql_admin_connections_closed_total",
		Help: "Connections of the admin address that were closed since too many were open.",
	})}
	reg.MustRegister(a.closed)
	return a
}

// ConnectionClosed counts one connection that made room for others.
func (a *Admin) ConnectionClosed() {
	if a != nil {
		a.closed.Inc()
	}
}
