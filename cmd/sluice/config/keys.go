package config

import (
	"slices"
	"strings"
)

// EnvPrefix is the prefix of every variable that Sluice reads.
const EnvPrefix = "DSQL_"

// Key is one row of the table of keys. Defaults, variables, flags, --help, the check command and
// docs/configuration.md all come from these rows.
type Key struct {
	// Name is the dotted name in the file, for example "listen.address".
	Name string
	// Default is the default value. Its type is the key's type: string, int, bool, float64, time.Duration,
	// []string or []rewrite.LockPolicy.
	Default any
	// help describes the key, for --help and for the reference.
	help string
	// field returns a pointer to the key's field, of Default's type.
	field func(*Config) any
	// Choices, if not empty, are the only accepted values.
	Choices []string
	// Secret values are never printed, and have no flag, because ps shows flags.
	Secret bool
}

// EnvName returns the name of the key's variable.
func (k *Key) EnvName() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// FlagName returns the name of the key's flag without dashes, or "" if it has none.
func (k *Key) FlagName() string {
	if k.Secret {
		return ""
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(k.Name)
}

// fullHelp returns help with the choices and other properties of the key.
func (k *Key) fullHelp() string {
	text := k.help
	if k.Choices != nil {
		text += " One of: " + strings.Join(k.Choices, ", ") + "."
	}
	return text
}

// flagAliases are short names of flags that are often typed.
var flagAliases = map[string]string{
	"endpoint": "backend-endpoint",
}

// Keys are all keys, in the order of the reference.
var Keys = slices.Concat(listenKeys, tlsKeys, authKeys, adminKeys, backendKeys, reservoirKeys, clientKeys, drainKeys, credentialKeys,
	sessionKeys, rewriteKeys, ddlKeys, copyKeys, retryKeys, runtimeKeys, logKeys, leaseKeys)

// KeyByName returns the row of a key, or nil.
func KeyByName(name string) *Key {
	for i := range Keys {
		if Keys[i].Name == name {
			return &Keys[i]
		}
	}
	return nil
}

// KeyNames returns the names of all keys in the order of Keys.
func KeyNames() []string {
	names := make([]string, len(Keys))
	for i := range Keys {
		names[i] = Keys[i].Name
	}
	return names
}
