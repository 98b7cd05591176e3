package metrics

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteTable writes a Markdown table of Sluice's own metrics, from a new Set and the registry of
// sluice inject. So documentation cannot differ from the metrics served.
func WriteTable(w io.Writer) error {
	families, err := New(Options{}).Registry.Gather()
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	injector, err := NewInjector("", func() InjectorCounts { return InjectorCounts{} }).Gather()
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	for _, f := range injector {
		if strings.HasPrefix(f.GetName(), "dsql_inject_") { // others are in both registries
			families = append(families, f)
		}
	}
	var b strings.Builder
	b.WriteString("| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n")
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "dsql_") {
			continue // the Go runtime's and the process's
		}
		var l labelSet
		for _, m := range f.GetMetric() {
			for _, pair := range m.GetLabel() {
				l.add(pair.GetName(), pair.GetValue())
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), &l, f.GetHelp())
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// labelSet holds the names of a metric's labels, each with its values.
type labelSet struct {
	names  []string
	values map[string][]string
}

func (l *labelSet) add(name, value string) {
	if l.values == nil {
		l.values = map[string][]string{}
	}
	if !slices.Contains(l.names, name) {
		l.names = append(l.names, name)
	}
	if value != "" && !slices.Contains(l.values[name], value) {
		l.values[name] = append(l.values[name], value)
	}
}

func (l *labelSet) String() string {
	parts := make([]string, 0, len(l.names))
	for _, name := range l.names {
		part := "`" + name + "`"
		if values := l.values[name]; len(values) > 0 && !slices.Equal(values, []string{Other}) { // else it is not a closed set
			part += ": " + strings.Join(l.values[name], ", ")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}
