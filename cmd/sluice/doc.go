// Command sluice is a sidecar daemon that speaks the Postgres wire protocol in
// front of Amazon Aurora DSQL.
//
// # Files, in the order a start meets them
//
// main.go turns run into an exit code; commands.go holds the cobra commands;
// keys.go is the one table of configuration keys, whose rows are in keysconnections.go,
// keyssessions.go, keysstatements.go and keysfleet.go; load.go fills a Config from
// the table, the file, the environment and the flags; validate.go says
// everything that is wrong with it at once; wire.go builds the daemon, with the
// AWS credentials of credentials.go; serve.go runs it until a signal, and drain.go
// brings it to its end; admin.go answers /metrics and the probes, on connections that adminconns.go bounds, for which
// healthcheck.go asks.
//
// lint.go is the command that reads SQL: lint_files.go files and folders, lint_log.go logs;
// lint_report.go says what was found.
//
// inject.go is the command that puts Sluice into pods, by package inject:
// webhook.go serves the API server, manifests.go and yaml.go change files.
//
// # Invariants
//
// Only this package reads the environment, and only this package sees all
// others. A value is never corrected: it is used as given or refused with its
// key, its origin and what to write instead. Secrets are printed nowhere.
//
// # Exit codes
//
// 0 is a normal end (a drain that met its deadline included), 1 a failure while
// running, 2 a wrong command line or configuration.
package main
