package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"
)

var update = flag.Bool("update", false, "write what the key table says into the chart's schema")

const chartSchema = "../../../deploy/helm/sluice/values.schema.json"

// schema is the key as JSON Schema has it.
func (k *Key) schema() map[string]any {
	s := map[string]any{"description": k.help}
	switch k.Default.(type) {
	case bool:
		s["type"] = "boolean"
	case int:
		s["type"] = "integer"
	case float64:
		s["type"] = "number"
	case []string:
		s["type"], s["items"] = "array", map[string]any{"type": "string"}
	default:
		s["type"] = "string"
	}
	if k.Choices != nil {
		s["enum"] = k.Choices
	}
	return s
}

// The chart takes every key of the table but secrets, with its type, and no other.
func TestChartSchema(t *testing.T) {
	properties := map[string]any{}
	for i := range Keys {
		if k := &Keys[i]; !k.Secret {
			properties[k.Name] = k.schema()
		}
	}
	text, err := os.ReadFile(chartSchema)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	var plain map[string]any // as it is behind a reading
	if made, err := json.Marshal(want); err != nil || json.Unmarshal(made, &plain) != nil {
		t.Fatal(err)
	}
	values := schema["properties"].(map[string]any)
	if reflect.DeepEqual(values["config"], any(plain)) {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: go test ./cmd/sluice/config -run TestChartSchema -update", chartSchema)
	}
	values["config"] = plain
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(chartSchema, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
