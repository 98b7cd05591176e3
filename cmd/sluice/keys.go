package main

import (
	"slices"
	"strings"
)

// envPrefix starts every variable that Sluice reads.
const envPrefix = "DSQL_"

// key is one row of the configuration table. Defaults, environment variables,
// flags, --help, the check command and the reference in docs/configuration.md all come from
// these rows and from nowhere else.
type key struct {
	// name in the file, dotted: "listen.address".
	name string
	// def is the default. Its type is the key's type: string, int, bool,
	// float64, time.Duration, []string or []rewrite.LockPolicy.
	def any
	// help is one sentence for --help and for the reference.
	help string
	// field is where the value goes: a pointer to def's type.
	field func(*Config) any
	// choices, when any, are the only values accepted.
	choices []string
	// secret values are never printed, and have no flag: flags show in ps.
	secret bool
}

// env is the environment variable of a key.
func (k *key) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
}

// flag is the flag of a key, without dashes; "" when it has none.
func (k *key) flag() string {
	if k.secret {
		return ""
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(k.name)
}

// explain is the help with what follows from the rest of the row.
func (k *key) explain() string {
	text := k.help
	if k.choices != nil {
		text += " One of: " + strings.Join(k.choices, ", ") + "."
	}
	return text
}

// flagAliases are short spellings of flags that are typed often.
var flagAliases = map[string]string{
	"endpoint": "backend-endpoint",
}

// keys is the table, in the order of the reference.
var keys = slices.Concat(listenKeys, backendKeys, sessionKeys, statementKeys, replayKeys, processKeys, leaseKeys)

// keyNamed returns the row of a key, or nil.
func keyNamed(name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}
