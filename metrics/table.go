package metrics

import (
	"fmt"
	"io"
	"strings"
)

// WriteTable writes a Markdown table of every metric of Sluice's own, made from
// a fresh Set, so that documentation cannot drift from what is served.
func WriteTable(w io.Writer) error {
	families, err := New(Options{}).Registry.Gather()
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	var b strings.Builder
	b.WriteString("| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n")
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "dsql_") {
			continue // the Go runtime's and the process's
		}
		var label string
		var values []string
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				label = "`" + l.GetName() + "`"
				if l.GetValue() != "" {
					values = append(values, l.GetValue())
				}
			}
		}
		if len(values) > 0 {
			label += ": " + strings.Join(values, ", ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), label, f.GetHelp())
	}
	_, err = io.WriteString(w, b.String())
	return err
}
