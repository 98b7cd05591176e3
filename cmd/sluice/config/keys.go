package config

import (
	"slices"
	"strings"
)

// EnvPrefix is the prefix of the name of every environment variable that sets a configuration key.
const EnvPrefix = "DSQL_"

// Key is one row of the table of configuration keys. Defaults, variables, flags, --help, the check command and
// docs/configuration.md all come from these rows.
type Key struct {
	// Name is the key's dotted name in the configuration file, for example "listen.address".
	Name string
	// Default is the key's default value. The type of Default is the key's type: string, int, bool, float64,
	// time.Duration, []string or []rewrite.LockPolicy.
	Default any
	// help is the text that describes the key in --help and in the reference.
	help string
	// field returns a pointer to the field of the Config that has the key's value. The field has Default's type.
	field func(*Config) any
	// Choices, if not empty, are the only values that the key accepts.
	Choices []string
	// Secret means that the key's value is never printed. A secret key has no flag, because ps shows flags.
	Secret bool
}

// EnvName returns the name of the environment variable that sets the key.
func (k *Key) EnvName() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// FlagName returns the name of the flag that sets the key, without dashes, or "" if the key has none.
func (k *Key) FlagName() string {
	if k.Secret {
		return ""
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(k.Name)
}

// fullHelp returns the key's help, with its choices and other properties.
func (k *Key) fullHelp() string {
	text := k.help
	if k.Choices != nil {
		text += " One of: " + strings.Join(k.Choices, ", ") + "."
	}
	return text
}

// flagAliases maps the short names of flags that are often typed to the flags' full names.
var flagAliases = map[string]string{
	"endpoint": "backend-endpoint",
}

// Keys are all configuration keys, in the order of the reference.
var Keys = slices.Concat(listenKeys, tlsKeys, authKeys, adminKeys, backendKeys, reservoirKeys, clientKeys, drainKeys, credentialKeys,
	sessionKeys, rewriteKeys, ddlKeys, copyKeys, retryKeys, runtimeKeys, logKeys, leaseKeys)

// KeyByName returns the row of a configuration key, or nil for an unknown name.
func KeyByName(name string) *Key {
	for i := range Keys {
		if Keys[i].Name == name {
			return &Keys[i]
		}
	}
	return nil
}

// KeyNames returns the names of all configuration keys in the order of Keys.
func KeyNames() []string {
	names := make([]string, len(Keys))
	for i := range Keys {
		names[i] = Keys[i].Name
	}
	return names
}
