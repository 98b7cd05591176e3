// Package config reads the configuration of Sluice and says everything that is wrong with it.
//
// A topic is a file, such as drain.go: the struct of its fields, the rows of its keys with default and
// help, what follows from them (deriveX), and the checks of them. config.go has Config, which is all
// topics, and the order in which they are derived and checked. The other files are about every key:
//
//	keys.go      the table of keys
//	load.go      fills a Config from the table, the file, the environment and the flags
//	value.go     a key's value as text and as a Go value; policies.go those of rewrite.locking_policies
//	print.go     prints the effective configuration
//	reference.go writes the tables of docs/configuration.md and docs/metrics.md
//	flags.go     a flag for each key
//	suggest.go   names what a misspelt key may mean
//
// A Config is made once and nothing changes it later, but listen.max_clients, which may follow
// the limit of file descriptors. A value is never corrected: it is used as given, or refused with
// its key, its origin and what to write instead. Secrets are printed nowhere.
package config
