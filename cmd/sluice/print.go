package main

import (
	"fmt"
	"strings"
)

// yaml prints the effective configuration in the file's form, the origin of each
// value behind it and secrets redacted.
func (c *Config) yaml() string {
	var b strings.Builder
	section := ""
	for i := range keys {
		k := &keys[i]
		outer, inner, nested := strings.Cut(k.name, ".")
		switch {
		case !nested:
			inner = k.name
		case outer != section:
			fmt.Fprintf(&b, "%s:\n", outer)
		}
		section = outer
		if nested {
			inner = "  " + inner
		}
		fmt.Fprintf(&b, "%s: %s # %s\n", inner, k.yaml(c.effective(k)), c.origins[k.name])
	}
	return b.String()
}

// effective is the value of a key that the process runs by: of text, what was made of it.
func (c *Config) effective(k *key) any {
	if text, ok := k.field(c).(*string); ok {
		return *text
	}
	return c.values[k.name]
}

// yaml prints a value as YAML. %q is a double-quoted YAML scalar for any text
// that a configuration holds.
func (k *key) yaml(value any) string {
	switch value := value.(type) {
	case string:
		return fmt.Sprintf("%q", k.plain(value))
	case []string:
		quoted := make([]string, len(value))
		for i, item := range value {
			quoted[i] = fmt.Sprintf("%q", item)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return k.plain(value)
}
