package config

import "fmt"

// KeyNames returns the names of all keys, in the order of the table.
func KeyNames() []string {
	names := make([]string, len(Keys))
	for i := range Keys {
		names[i] = Keys[i].Name
	}
	return names
}

// PodProblems says what serve would say of a configuration of these values, in the
// environment of a container that has no others.
func PodProblems(values map[string]string) (problems []string) {
	c := &Config{values: map[string]any{}, origins: map[string]string{}}
	for i := range Keys {
		k := &Keys[i]
		value := k.Default
		if text, set := values[k.Name]; set {
			decoded, err := k.decode(text)
			if err == nil {
				value = decoded
			} else {
				problems = append(problems, fmt.Sprintf("%s: %s: %v", k.Name, k.show(text), err))
			}
		}
		c.values[k.Name] = value
		k.store(c, value)
	}
	c.derive()
	return append(problems, c.Problems(c.validate())...)
}
