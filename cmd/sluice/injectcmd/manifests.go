package injectcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-proxy/sluice/cmd/sluice/inject"
)

// separator matches the start of a YAML document. No line within a document matches it.
var separator = regexp.MustCompile(`(?m)^---(?:[ \t\r]|$)`)

// injectManifests adds Sluice to the pods of a text of YAML documents or JSON values. A document without a pod stays
// unchanged, to the byte. A document with a pod retains its comments, order and numbers.
func injectManifests(in *inject.Injector, text string) (out string, notes []inject.SkipNote, err error) {
	var b strings.Builder
	var errs []error
	for i, doc := range splitDocuments(text) {
		change := injectYAML
		if isJSON(doc) {
			change = injectJSON
		}
		changed, more, err := change(in, doc)
		if err != nil {
			errs = append(errs, fmt.Errorf("document %d: %w", i+1, err))
			continue
		}
		b.WriteString(changed)
		notes = append(notes, more...)
	}
	return b.String(), notes, errors.Join(errs...)
}

// splitDocuments splits a text of YAML before each separator.
func splitDocuments(text string) (all []string) {
	begin := 0
	for _, at := range separator.FindAllStringIndex(text, -1) {
		if at[0] > begin {
			all = append(all, text[begin:at[0]])
		}
		begin = at[0]
	}
	return append(all, text[begin:])
}

// isJSON reports whether a text consists of JSON objects. The YAML mapping {a: b} is not JSON.
func isJSON(text string) bool {
	d := json.NewDecoder(strings.NewReader(text))
	found := false
	for {
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return found && errors.Is(err, io.EOF)
		}
		if value[0] != '{' {
			return false
		}
		found = true
	}
}

// injectJSON adds Sluice to the pods of a text of JSON values.
func injectJSON(in *inject.Injector, text string) (out string, notes []inject.SkipNote, err error) {
	var b bytes.Buffer
	d := json.NewDecoder(strings.NewReader(text))
	kept := 0 // end of the written part of text
	for {
		var value json.RawMessage
		if err := d.Decode(&value); errors.Is(err, io.EOF) {
			b.WriteString(text[kept:])
			return b.String(), notes, nil
		} else if err != nil {
			return "", nil, err
		}
		end := int(d.InputOffset())
		patch, more, err := in.PatchManifest(value)
		if err != nil {
			return "", nil, err
		}
		notes = append(notes, more...)
		if len(patch) == 0 {
			continue
		}
		changed, err := inject.ApplyPatch(value, patch)
		if err != nil {
			return "", nil, err
		}
		b.WriteString(text[kept : end-len(value)])
		if err := json.Indent(&b, changed, "", "  "); err != nil {
			return "", nil, err
		}
		kept = end
	}
}

// injectYAML adds Sluice to the pods of one YAML document.
func injectYAML(in *inject.Injector, text string) (out string, notes []inject.SkipNote, err error) {
	var doc, more yaml.Node
	d := yaml.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return text, nil, nil // comments only
	} else if err != nil {
		return "", nil, err
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return "", nil, errors.New("another document begins without a line ---")
	}
	flat := aliasExpander{left: maxNodes}
	root, err := flat.expand(doc.Content[0])
	if err != nil {
		return "", nil, err
	}
	value, err := yamlToJSON(root)
	if err != nil {
		return "", nil, err
	}
	patch, notes, err := in.PatchManifest(value)
	if err != nil || len(patch) == 0 {
		return text, notes, err
	}
	for _, o := range patch {
		value, err := jsonToYAML(o.Value)
		if err != nil {
			return "", nil, err
		}
		if err := addNode(root, o.PathNames(), value); err != nil {
			return "", nil, fmt.Errorf("%s: %w", o.Path, err)
		}
	}
	doc.Content[0] = root
	var b strings.Builder
	if separator.MatchString(text) {
		b.WriteString("---\n")
	}
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(&doc), e.Close()); err != nil {
		return "", nil, err
	}
	return b.String(), notes, nil
}
