package main

import (
	"fmt"
	"strconv"
)

// workload is one way to run pgbench.
type workload struct {
	id      string // for --only and in the result
	title   string // in tables
	clients int
	args    []string // of pgbench
	script  string   // pgbench's own (by args) when empty

	// reconnect makes each transaction open a new connection. pgbench excludes the connection time from the latencies in
	// its log, so these runs have no latencies.
	reconnect bool
	// session makes PgBouncer run in session mode, because PgBouncer 1.18 has no prepared statements in transaction mode.
	session bool
	// fresh is SQL that undoes, before each sample, the effects of earlier samples.
	fresh string
	// note is a remark about the workload's limits, for the tables.
	note string
}

// maxClients is the largest number of clients in a workload.
const maxClients = 64

const (
	selectOne = "SELECT 1;\n"
	// largeResult is a query for 10 MB in rows of 1 kB. The server generates the rows, because reading a table would take
	// the server as much work again.
	largeResult = "SELECT repeat('x', 1000) FROM generate_series(1, 10000);\n"
	// freshTPCB is the SQL that pgbench itself runs before a TPC-B run; the bench runs it on the server directly.
	freshTPCB = "VACUUM pgbench_branches; VACUUM pgbench_tellers; TRUNCATE pgbench_history;"
)

// These are ids of workloads that goals refer to.
const (
	idSelectOne   = "select1-1"
	idExtended16  = "select-extended-16"
	idLargeResult = "large"
	idChurn       = "churn"
)

// workloads returns the workloads of the part load of the bench, in the order of the table.
func workloads() []workload {
	list := []workload{{id: idSelectOne, title: "`SELECT 1`, c=1", clients: 1, script: selectOne}}
	for _, protocol := range []string{"simple", "extended", "prepared"} {
		for _, clients := range []int{1, 16, maxClients} {
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
