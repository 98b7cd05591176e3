package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// PatchOperation is one step of a JSONPatch (RFC 6902). Each step is an "add": it sets a member of an object, or
// inserts an element into a list.
type PatchOperation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

// addOperation returns the step that adds a value at a path of unescaped names.
func addOperation(value any, path ...string) PatchOperation {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // all values are this package's own, with encodable types
	}
	return PatchOperation{Op: "add", Path: jsonPointer(path...), Value: raw}
}

// jsonPointer returns a path in the notation of RFC 6901.
func jsonPointer(path ...string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	return b.String()
}

// PathNames returns the path of an operation, unescaped.
func (o PatchOperation) PathNames() []string {
	names := strings.Split(o.Path, "/")[1:]
	for i := range names {
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(names[i])
	}
	return names
}

// ApplyPatch applies a patch to the text of a document. Parts outside the patch stay unchanged.
func ApplyPatch(doc []byte, patch []PatchOperation) ([]byte, error) {
	for _, o := range patch {
		var err error
		if doc, err = insertValue(doc, o.PathNames(), o.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Path, err)
		}
	}
	return doc, nil
}

// insertValue returns doc with a value at a path. All names of the path except the last must exist.
func insertValue(doc []byte, path []string, value []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	open, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch open {
	case json.Delim('{'):
		return insertMember(doc, d, path, value)
	case json.Delim('['):
		return insertElement(doc, d, path, value)
	}
	return nil, errors.New("neither an object nor a list")
}

// insertMember does the work of insertValue for an object whose opening brace d has read.
func insertMember(doc []byte, d *json.Decoder, path []string, value []byte) ([]byte, error) {
	comma, at := "", int(d.InputOffset())
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var old json.RawMessage
		if err := d.Decode(&old); err != nil {
			return nil, err
		}
		comma, at = ",", int(d.InputOffset())
		if name != path[0] {
			continue
		}
		if len(path) > 1 {
			value, err = insertValue(old, path[1:], value)
		}
		return replaceRange(doc, at-len(old), at, value), err
	}
	if len(path) > 1 {
		return nil, fmt.Errorf("there is no %q", path[0])
	}
	name, _ := json.Marshal(path[0]) // text can always be encoded
	return replaceRange(doc, at, at, []byte(comma), name, []byte(":"), value), nil
}

// insertElement does the work of insertValue for a list whose opening bracket d has read. The index "-" means the end.
func insertElement(doc []byte, d *json.Decoder, path []string, value []byte) ([]byte, error) {
	want, last := -1, path[0] == "-"
	if !last {
		var err error
		if want, err = strconv.Atoi(path[0]); err != nil {
			return nil, err
		}
	}
	comma, at := "", int(d.InputOffset())
	for i := 0; d.More(); i++ {
		var old json.RawMessage
		if err := d.Decode(&old); err != nil {
			return nil, err
		}
		comma, at = ",", int(d.InputOffset())
		switch {
		case i != want:
		case len(path) == 1:
			return replaceRange(doc, at-len(old), at-len(old), value, []byte(",")), nil
		default:
			value, err := insertValue(old, path[1:], value)
			return replaceRange(doc, at-len(old), at, value), err
		}
	}
	if len(path) > 1 || !last && (want != 0 || comma != "") {
		return nil, fmt.Errorf("there is no element %s", path[0])
	}
	return replaceRange(doc, at, at, []byte(comma), value), nil
}

// replaceRange returns doc with the bytes from begin to end replaced.
func replaceRange(doc []byte, begin, end int, parts ...[]byte) []byte {
	return bytes.Join([][]byte{doc[:begin], bytes.Join(parts, nil), doc[end:]}, nil)
}
