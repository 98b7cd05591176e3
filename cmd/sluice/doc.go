// Command sluice is a sidecar daemon that speaks the Postgres wire protocol in
// front of Amazon Aurora DSQL.
//
// # Packages
//
//	cli        the root command, exit codes, the input of commands
//	config     the table of keys, and a Config of file, environment and flags
//	daemon     serve and healthcheck: builds the parts, runs them, drains them
//	doctor     check and doctor: ask a server what the configuration needs
//	lint       lint: reads SQL files and logs
//	leasecmd   lease: looks after the DynamoDB table
//	injectcmd  inject: the admission webhook and the filter of manifests, by package inject
//
// This package has the list of commands and the version. Its tests hold the source of the whole
// module to its rules. default.pgo is the profile that a release is compiled by.
//
// # Exit codes
//
// 0 is a normal end (a drain that met its deadline included), 1 a failure while
// running, 2 a wrong command line or configuration.
package main
