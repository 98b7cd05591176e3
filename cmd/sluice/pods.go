package main

import (
	"fmt"
)

func keyNames() []string {
	names := make([]string, len(keys))
	for i := range keys {
		names[i] = keys[i].name
	}
	return names
}

// podProblems says what serve would say of a configuration of these values, in the
// environment of a container that has no others.
func podProblems(values map[string]string) (problems []string) {
	c := &Config{values: map[string]any{}, origins: map[string]string{}}
	for i := range keys {
		k := &keys[i]
		value := k.def
		if text, set := values[k.name]; set {
			decoded, err := k.decode(text)
			if err == nil {
				value = decoded
			} else {
				problems = append(problems, fmt.Sprintf("%s: %s: %v", k.name, k.show(text), err))
			}
		}
		c.values[k.name] = value
		k.store(c, value)
	}
	c.derive()
	return append(problems, c.problems(c.validate())...)
}
