// Command sluice is a sidecar daemon that speaks the Postgres wire protocol in front of Amazon
// Aurora DSQL.
//
// # Packages
//
//	cli        the root command, exit codes, the input of commands
//	config     the table of keys, and a Config of file, environment and flags
//	daemon     serve and healthcheck: builds the parts, runs them, drains them
//	doctor     check and doctor: ask a server what the configuration needs
//	lint       lint: reads SQL files and logs
//	leasecmd   lease: manages the DynamoDB table
//	injectcmd  inject: the admission webhook and the filter of manifests, by package inject
//
// This package has the list of commands and the version. Its tests check the source of the whole
// module. default.pgo is the profile with which releases are compiled.
//
// # Exit codes
//
// 0 is a normal end, which includes a drain that met its deadline. 1 is a failure while running. 2
// is a wrong command line or configuration.
package main
