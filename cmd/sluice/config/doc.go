// Package config reads the configuration of Sluice and reports everything that is wrong with it.
//
// Each topic has a file, for example drain.go. The file has the struct of the topic's fields, its keys with
// default and help, the values that follow from them (deriveX), and their checks. config.go has Config, which
// contains all topics, and the order of derivations and checks. The other files concern all keys:
//
//	keys.go      the table of keys
//	load.go      fills a Config from the table, the file, the environment and the flags
//	value.go     converts values between text and Go; policies.go does so for rewrite.locking_policies
//	print.go     prints the effective configuration
//	reference.go writes the tables of docs/configuration.md and docs/metrics.md
//	flags.go     defines a flag for each key
//	suggest.go   finds the key that a misspelled name means
//
// A Config does not change after it was made, except for listen.max_clients, which may follow the limit of file
// descriptors. A value is never corrected. It is used as given, or refused with its key, its source and a
// remedy. Secrets are never printed.
package config
