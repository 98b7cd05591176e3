package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/rewrite"
)

// redacted replaces a secret value in all output.
const redacted = "<redacted>"

// decodeValue converts a raw value to the key's type. raw is a text from a flag or variable, or a YAML value of the
// file. The error says what to write instead. A YAML number is not accepted as text, because 0123 and 1e3 would be
// changed.
func (k *Key) decodeValue(raw any) (any, error) {
	switch k.Default.(type) {
	case string:
		return k.decodeText(raw)
	case int:
		return decodeAs(raw, strconv.Atoi, "a whole number")
	case float64:
		if n, ok := raw.(int); ok {
			return float64(n), nil
		}
		return decodeAs(raw, parseNumber, "a number")
	case bool:
		return decodeAs(raw, parseBool, "true or false")
	case time.Duration:
		if raw == 0 {
			return time.Duration(0), nil
		}
		return decodeAs(raw, time.ParseDuration, "a duration with its unit, such as 500ms, 15s or 11m")
	case []string:
		return decodeList(raw)
	case []rewrite.LockPolicy:
		return decodePolicies(raw)
	}
	panic("key " + k.Name + " has a default of an unknown type")
}

// decodeText returns raw as a text, which must be one of the key's choices if the key has any.
func (k *Key) decodeText(raw any) (string, error) {
	if b, ok := raw.(bool); ok && k.Choices != nil { // for example `forward: true` in YAML
		raw = strconv.FormatBool(b)
	}
	text, ok := raw.(string)
	if !ok {
		return "", errors.New("want text; put it in quotes")
	}
	if k.Choices != nil && !slices.Contains(k.Choices, text) {
		return "", fmt.Errorf("want %s", formatChoices(k.Choices))
	}
	return text, nil
}

// decodeAs returns raw if its type is T. If raw is a text, decodeAs returns the result of parse.
func decodeAs[T any](raw any, parse func(string) (T, error), want string) (T, error) {
	if value, ok := raw.(T); ok {
		return value, nil
	}
	if text, ok := raw.(string); ok {
		if value, err := parse(text); err == nil {
			return value, nil
		}
	}
	var none T
	return none, errors.New("want " + want)
}

// parseNumber parses a number like strconv.ParseFloat, but refuses NaN.
func parseNumber(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if math.IsNaN(n) {
		return 0, strconv.ErrSyntax
	}
	return n, err
}

// parseBool parses true or false, without the short forms that strconv.ParseBool accepts.
func parseBool(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, strconv.ErrSyntax
	}
	return text == "true", nil
}

// decodeList decodes a YAML list, or names separated by commas.
func decodeList(raw any) ([]string, error) {
	var items []any
	switch raw := raw.(type) {
	case []any:
		items = raw
	case []string: // the type of the default
		return raw, nil
	case string:
		if strings.TrimSpace(raw) == "" {
			return []string{}, nil
		}
		for item := range strings.SplitSeq(raw, ",") {
			items = append(items, item)
		}
	default:
		return nil, fmt.Errorf("want a list")
	}
	list := make([]string, 0, len(items))
	for _, item := range items {
		text, ok := item.(string)
		if text = strings.TrimSpace(text); !ok || text == "" {
			return nil, fmt.Errorf("want a list of names; put each in quotes")
		}
		list = append(list, text)
	}
	return list, nil
}

// storeValue sets the key's field to a decoded value.
func (k *Key) storeValue(c *Config, value any) {
	switch field := k.field(c).(type) {
	case *string:
		*field = value.(string)
	case *int:
		*field = value.(int)
	case *float64:
		*field = value.(float64)
	case *bool:
		*field = value.(bool)
	case *time.Duration:
		*field = value.(time.Duration)
	case *[]string:
		*field = value.([]string)
	case *[]rewrite.LockPolicy:
		*field = value.([]rewrite.LockPolicy)
	default:
		panic(fmt.Sprintf("key %s has a field of type %T", k.Name, field))
	}
}

// formatValue returns a value of the key, decoded or raw, for a message.
func (k *Key) formatValue(value any) string {
	text := k.PlainText(value)
	if text == "" {
		return "empty"
	}
	if _, ok := value.(string); ok {
		return strconv.Quote(text)
	}
	return text
}

// PlainText returns a key's value in the form that a variable or a flag has.
func (k *Key) PlainText(value any) string {
	switch value := value.(type) {
	case string:
		if k.Secret && value != "" {
			return redacted
		}
		return value
	case []string:
		return strings.Join(value, ",")
	case time.Duration:
		return FormatDuration(value)
	case []rewrite.LockPolicy:
		return formatPolicies(value)
	case []any:
		if _, ok := k.Default.([]rewrite.LockPolicy); !ok {
			break
		}
		if text, err := json.Marshal(value); err == nil { // policies that could not be decoded
			return string(text)
		}
	}
	if k.Secret {
		return redacted
	}
	return fmt.Sprint(value)
}

// FormatDuration formats a duration like Duration.String, but without trailing zero units: 11m, not 11m0s.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// typeName returns the name of the key's type for --help and for the reference.
func (k *Key) typeName() string {
	switch k.Default.(type) {
	case int, float64:
		return "number"
	case bool:
		return "bool"
	case time.Duration:
		return "duration"
	case []string:
		return "list"
	case []rewrite.LockPolicy:
		return "policies"
	}
	if k.Choices != nil {
		return "choice"
	}
	return "text"
}

func formatChoices(choices []string) string {
	last := len(choices) - 1
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}
