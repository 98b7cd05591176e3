package config

import (
	"slices"
	"strings"
)

// EnvPrefix starts every variable that Sluice reads.
const EnvPrefix = "DSQL_"

// Key is one row of the configuration table. Defaults, environment variables,
// flags, --help, the check command and the reference in docs/configuration.md all come from
// these rows and from nowhere else.
type Key struct {
	// Name in the file, dotted: "listen.address".
	Name string
	// Default is the default. Its type is the key's type: string, int, bool,
	// float64, time.Duration, []string or []rewrite.LockPolicy.
	Default any
	// help is one sentence for --help and for the reference.
	help string
	// field is where the value goes: a pointer to Default's type.
	field func(*Config) any
	// Choices, when any, are the only values accepted.
	Choices []string
	// Secret values are never printed, and have no flag: flags show in ps.
	Secret bool
}

// Env is the environment variable of a key.
func (k *Key) Env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Flag is the flag of a key, without dashes; "" when it has none.
func (k *Key) Flag() string {
	if k.Secret {
		return ""
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(k.Name)
}

// explain is the help with what follows from the rest of the row.
func (k *Key) explain() string {
	text := k.help
	if k.Choices != nil {
		text += " One of: " + strings.Join(k.Choices, ", ") + "."
	}
	return text
}

// flagAliases are short spellings of flags that are typed often.
var flagAliases = map[string]string{
	"endpoint": "backend-endpoint",
}

// Keys is the table, in the order of the reference: the rows of the topics.
var Keys = slices.Concat(listenKeys, tlsKeys, authKeys, adminKeys, backendKeys, reservoirKeys, clientKeys, drainKeys, credentialKeys,
	sessionKeys, rewriteKeys, ddlKeys, copyKeys, retryKeys, runtimeKeys, logKeys, leaseKeys)

// KeyNamed returns the row of a key, or nil.
func KeyNamed(name string) *Key {
	for i := range Keys {
		if Keys[i].Name == name {
			return &Keys[i]
		}
	}
	return nil
}

// KeyNames returns the names of all keys, in the order of the table.
func KeyNames() []string {
	names := make([]string, len(Keys))
	for i := range Keys {
		names[i] = Keys[i].Name
	}
	return names
}
