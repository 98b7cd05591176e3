package main

import "github.com/sluice-proxy/sluice/integration/dsqlsim"

const longHelp = `Dsqlsim answers a Postgres client as an Aurora DSQL cluster would: TLS with SNI
only, an IAM token as password (verified for real, against the key pair given
here), the cluster's limits on connections, its refusals of SQL. A PostgreSQL
behind it, 14 or later, supplies everything else and keeps the data. It is for
development and tests.`

const exampleHelp = `  dsqlsim --upstream "host=/var/run/postgresql user=postgres"

  PGPASSWORD=$(dsqlsim token) psql "host=` + defaultEndpoint + ` \
    hostaddr=127.0.0.1 port=5433 user=admin dbname=postgres sslmode=require"`

// planHelp is the end of the server's help, after the flags. It describes the admin interface, and how to plan
// faults that dsqlsim injects.
var planHelp = `
Admin interface:
  GET    /livez, /readyz         200 while it serves, and while PostgreSQL answers
  GET    /metrics                counts, in Prometheus' text form
  GET    /ledger                 what every connection did: statements with order, outcome and
                                 PostgreSQL process, transactions, faults; ?after=N&session=M
  GET    /faults                 faults that have not happened yet
  POST   /faults                 plans a list of faults, all or none
  DELETE /faults                 forgets them
  DELETE /sessions/{id}          cuts a connection, as a lost network would

A plan is a JSON list of faults, for POST /faults and --faults:

  curl -d '[{"at":"commit","action":"fail","error":"conflict","skip":1}]' 127.0.0.1:9433/faults
  curl -d '[{"at":"committed","action":"cut","contains":"orders"}]' 127.0.0.1:9433/faults
  curl -d '[{"at":"commit","action":"fail","error":"conflict","probability":0.05}]' 127.0.0.1:9433/faults

Keys of a fault; at and action are needed:

` + dsqlsim.FaultPlanHelp()
