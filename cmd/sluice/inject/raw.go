package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxMembers bounds the members of a parsed object and the elements of a list: labels, annotations, fields, containers,
// patches. Each member takes many times its length in memory.
const maxMembers = 10_000

// parseObject returns the members of a JSON object by their exact names, or none for null. A duplicate name is an
// error, because readers differ in which of the two they use.
func parseObject(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if isNull(raw) {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.Join(errors.New("want an object"), err)
	}
	all := map[string]json.RawMessage{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // the decoder accepts nothing else here
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if len(all) == maxMembers {
			return nil, fmt.Errorf("more than %d members", maxMembers)
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%q stands there twice", name)
		}
		all[name] = value
	}
	_, err := d.Token()
	return all, err
}

// parseList returns the elements of a JSON list, or none for null. parseList returns an error at more than maxMembers,
// before they take memory.
func parseList(raw json.RawMessage) (all []json.RawMessage, err error) {
	if isNull(raw) {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return nil, errors.New("want a list")
	}
	for d.More() {
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errors.New("want a list")
		}
		if len(all) == maxMembers {
			return nil, fmt.Errorf("more than %d elements", maxMembers)
		}
		all = append(all, value)
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("want a list")
	}
	return all, nil
}

// parseStringMap returns a JSON object whose values are all strings, for example labels.
func parseStringMap(raw json.RawMessage) (map[string]string, error) {
	fields, err := parseObject(raw)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string, len(fields))
	for name, value := range fields {
		text, ok := parseString(value)
		if !ok {
			return nil, fmt.Errorf("%s: %s: want text; put it in quotes", name, value)
		}
		all[name] = text
	}
	return all, nil
}

// parseString returns a JSON string. ok is false for other values.
func parseString(raw json.RawMessage) (text string, ok bool) {
	ok = len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil
	return text, ok
}

// isNull reports whether a JSON value is missing or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
