package config

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/retry"
)

// tables are the names of the reference tables, as in their markers: of the configuration keys, of the metrics, and of
// the reasons to refuse a replay.
var tables = []string{"config", "metrics", "reasons"}

// PrintReference writes the reference tables, with the markers around each table.
func PrintReference(w io.Writer) error {
	for _, table := range tables {
		text, err := referenceTable(table)
		if err != nil {
			return err
		}
		begin, end := tableMarkers(table)
		if _, err := fmt.Fprintf(w, "%s\n%s%s\n", begin, text, end); err != nil {
			return err
		}
	}
	return nil
}

// WriteReference replaces the reference tables between the markers of a file by current ones.
func WriteReference(path string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := replaceReference(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// replaceReference returns a document whose reference tables, between markers, are current.
func replaceReference(document string) (string, error) {
	for _, table := range tables {
		begin, end := tableMarkers(table)
		before, rest, found := strings.Cut(document, begin)
		if !found {
			continue
		}
		_, after, found := strings.Cut(rest, end)
		if !found {
			return "", fmt.Errorf("%s without %s", begin, end)
		}
		text, err := referenceTable(table)
		if err != nil {
			return "", err
		}
		document = before + begin + "\n" + text + end + after
	}
	return document, nil
}

func tableMarkers(table string) (begin, end string) {
	return "<!-- begin:" + table + " -->", "<!-- end:" + table + " -->"
}

func referenceTable(table string) (string, error) {
	var b strings.Builder
	switch table {
	case "metrics":
		err := metrics.WriteTable(&b)
		return b.String(), err
	case "reasons":
		return retry.ReasonTable(), nil
	}
	b.WriteString("| Key | Type | Default | Meaning |\n|---|---|---|---|\n")
	for i := range Keys {
		k := &Keys[i]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Name, k.typeName(), codeSpan(k.PlainText(k.Default)), escapeTableCell(k.fullHelp()))
	}
	return b.String(), nil
}

// escapeTableCell escapes text for a Markdown table.
func escapeTableCell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(text)
}

func codeSpan(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(text, ",", "`, `") + "`"
}
