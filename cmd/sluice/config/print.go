package config

import (
	"fmt"
	"strings"
)

// YAML prints the effective configuration in the file's form, the origin of each
// value behind it and secrets redacted.
func (c *Config) YAML() string {
	var b strings.Builder
	section := ""
	for i := range Keys {
		k := &Keys[i]
		outer, inner, nested := strings.Cut(k.Name, ".")
		switch {
		case !nested:
			inner = k.Name
		case outer != section:
			fmt.Fprintf(&b, "%s:\n", outer)
		}
		section = outer
		if nested {
			inner = "  " + inner
		}
		fmt.Fprintf(&b, "%s: %s # %s\n", inner, k.yaml(c.Effective(k)), c.origins[k.Name])
	}
	return b.String()
}

// Effective is the value of a key that the process runs by: of text, what was made of it.
func (c *Config) Effective(k *Key) any {
	if text, ok := k.field(c).(*string); ok {
		return *text
	}
	return c.values[k.Name]
}

// yaml prints a value as YAML. %q is a double-quoted YAML scalar for any text
// that a configuration holds.
func (k *Key) yaml(value any) string {
	switch value := value.(type) {
	case string:
		return fmt.Sprintf("%q", k.Plain(value))
	case []string:
		quoted := make([]string, len(value))
		for i, item := range value {
			quoted[i] = fmt.Sprintf("%q", item)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return k.Plain(value)
}
