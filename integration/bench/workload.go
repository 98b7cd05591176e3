package main

import (
	"fmt"
	"strconv"
)

// workload is one way to use pgbench.
type workload struct {
	id      string // for --only and in the result
	title   string // in tables
	clients int
	args    []string // of pgbench
	script  string   // pgbench's own (by args) when empty

	// reconnect makes each transaction open a connection of its own, which
	// pgbench leaves out of its log's latencies: there are none then.
	reconnect bool
	// session puts PgBouncer in session mode: see doc.go.
	session bool
	// fresh is SQL that undoes, before each sample, what earlier ones left.
	fresh string
	// note is a reservation that belongs beside the figures.
	note string
}

// mostClients is the largest number of clients in a workload.
const mostClients = 64

const (
	selectOne = "SELECT 1;\n"
	// largeResult is 10 MB in rows of 1 kB, made on the fly: reading a table
	// would cost the server the same again.
	largeResult = "SELECT repeat('x', 1000) FROM generate_series(1, 10000);\n"
	// freshTPCB is what pgbench does before such a run, on the server itself.
	freshTPCB = "VACUUM pgbench_branches; VACUUM pgbench_tellers; TRUNCATE pgbench_history;"
)

// Ids that goals refer to.
const (
	idSelectOne   = "select1-1"
	idExtended16  = "select-extended-16"
	idLargeResult = "large"
	idChurn       = "churn"
)

// workloads lists what the first part measures, in the order of the table.
func workloads() []workload {
	list := []workload{{id: idSelectOne, title: "`SELECT 1`, c=1", clients: 1, script: selectOne}}
	for _, protocol := range []string{"simple", "extended", "prepared"} {
		for _, clients := range []int{1, 16, mostClients} {
			w := workload{
				id:      "select-" + protocol + "-" + strconv.Itoa(clients),
				title:   fmt.Sprintf("select-only %s, c=%d", protocol, clients),
				clients: clients,
				args:    []string{"-S", "-M", protocol},
			}
			if protocol == "prepared" {
				w.session, w.note = true, "PgBouncer in session mode"
			}
			list = append(list, w)
		}
	}
	return append(list,
		workload{id: "tpcb", title: "TPC-B-like, c=16", clients: 16, args: []string{"-b", "tpcb-like"}, fresh: freshTPCB},
		workload{id: idLargeResult, title: "10 MB results, c=4", clients: 4, script: largeResult, args: []string{"--sampling-rate=1"}},
		workload{id: idChurn, title: "connect, `SELECT 1`, close, c=8", clients: 8, script: selectOne, reconnect: true},
	)
}
