package config

import (
	"fmt"
	"strings"
)

// YAML writes the effective configuration in the file's form. Each value is followed by its source, and secrets
// are redacted.
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
		fmt.Fprintf(&b, "%s: %s # %s\n", inner, k.formatYAML(c.EffectiveValue(k)), c.origins[k.Name])
	}
	return b.String()
}

// EffectiveValue returns the value of a key that the process uses. For a key whose value is text, the result is the
// text after all derivations.
func (c *Config) EffectiveValue(k *Key) any {
	if text, ok := k.field(c).(*string); ok {
		return *text
	}
	return c.values[k.Name]
}

// formatYAML returns a key's value as YAML. %q gives a double-quoted YAML scalar for every text of a configuration.
func (k *Key) formatYAML(value any) string {
	switch value := value.(type) {
	case string:
		return fmt.Sprintf("%q", k.PlainText(value))
	case []string:
		quoted := make([]string, len(value))
		for i, item := range value {
			quoted[i] = fmt.Sprintf("%q", item)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return k.PlainText(value)
}
