// Package config reads the configuration of Sluice and says everything that is wrong with it.
//
//	keys.go      the table of keys; keysconnections.go, keyssessions.go, keysstatements.go and
//	             keysfleet.go have its rows
//	load.go      fills a Config from the table, the file, the environment and the flags
//	config.go    Config, and the fields that follow from others
//	value.go     a key's value as text and as a Go value
//	validate.go  judges the configuration as a whole
//	print.go     prints the effective configuration
//	reference.go writes the tables of docs/configuration.md and docs/metrics.md
//	flags.go     a flag for each key
//	pods.go      judges the values of a pod's annotations
//
// A Config is made once and nothing changes it later, but listen.max_clients, which may follow
// the limit of file descriptors. A value is never corrected: it is used as given, or refused with
// its key, its origin and what to write instead. Secrets are printed nowhere.
package config
