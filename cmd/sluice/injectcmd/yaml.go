package injectcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds the nodes of a YAML document after the expansion of its aliases, because a few lines of aliases can
// exceed any memory.
const maxNodes = 200_000

// aliasExpander replaces aliases and merge keys of a YAML document by copies of their nodes. So a change in one place
// does not change another.
type aliasExpander struct{ left int }

var errAliases = errors.New("aliases stand for too much")

// expand returns a copy of the YAML node n without anchors, aliases and merge keys.
func (f *aliasExpander) expand(n *yaml.Node) (*yaml.Node, error) {
	if f.left--; f.left < 0 {
		return nil, errAliases
	}
	if n.Kind == yaml.AliasNode {
		target, err := f.expand(n.Alias)
		if err == nil {
			target.HeadComment, target.LineComment, target.FootComment = n.HeadComment, n.LineComment, n.FootComment
		}
		return target, err
	}
	flat := *n
	flat.Anchor, flat.Content = "", nil
	var merged []*yaml.Node
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.ShortTag() == "!!merge" {
			merged = append(merged, n.Content[i+1])
			continue
		}
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].ShortTag() == "!!merge" {
			continue
		}
		child, err := f.expand(child)
		if err != nil {
			return nil, err
		}
		flat.Content = append(flat.Content, child)
	}
	for _, from := range merged {
		if err := f.mergeMembers(&flat, from); err != nil {
			return nil, err
		}
	}
	return &flat, nil
}

// mergeMembers copies from the parameter from, a mapping or a list of mappings, the members that the mapping to
// lacks.
func (f *aliasExpander) mergeMembers(to, from *yaml.Node) error {
	from, err := f.expand(from)
	if err != nil {
		return err
	}
	if from.Kind == yaml.SequenceNode {
		for _, one := range from.Content {
			if err := f.mergeMembers(to, one); err != nil {
				return err
			}
		}
		return nil
	}
	if from.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: << wants a mapping", from.Line)
	}
	for i := 0; i < len(from.Content); i += 2 {
		if findMember(to, from.Content[i].Value) == nil {
			to.Content = append(to.Content, from.Content[i], from.Content[i+1])
		}
	}
	return nil
}

// findMember returns a pointer to the member of a YAML mapping, or nil if there is none.
func findMember(mapping *yaml.Node, name string) **yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return &mapping.Content[i+1]
		}
	}
	return nil
}

// yamlToJSON returns a YAML node without aliases as JSON, as kubectl does.
func yamlToJSON(n *yaml.Node) (json.RawMessage, error) {
	var b bytes.Buffer
	err := writeJSON(&b, n)
	return b.Bytes(), err
}

func writeJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			b.WriteByte("{,"[min(i, 1)])
			name, _ := json.Marshal(n.Content[i].Value) // text can always be encoded
			b.Write(name)
			b.WriteByte(':')
			if err := writeJSON(b, n.Content[i+1]); err != nil {
				return err
			}
		}
		if len(n.Content) == 0 {
			b.WriteByte('{')
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, child := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, child); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	default:
		text, err := scalarToJSON(n)
		b.WriteString(text)
		return err
	}
	return nil
}

// oldBools maps words that kubectl takes for booleans, as YAML 1.1 did.
var oldBools = map[string]string{"yes": "true", "on": "true", "no": "false", "off": "false"}

// scalarToJSON returns a YAML scalar as JSON. A number that JSON can express retains its digits.
func scalarToJSON(n *yaml.Node) (string, error) {
	switch n.ShortTag() {
	case "!!null":
		return "null", nil
	case "!!bool":
		return strings.ToLower(n.Value), nil
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return n.Value, nil
		}
		var whole int64
		if n.Decode(&whole) == nil {
			return strconv.FormatInt(whole, 10), nil
		}
		var number float64
		err := n.Decode(&number)
		text, errNumber := json.Marshal(number)
		if err = errors.Join(err, errNumber); err != nil {
			return "", fmt.Errorf("line %d: %s: no number of JSON", n.Line, n.Value)
		}
		return string(text), nil
	}
	if b, old := oldBools[strings.ToLower(n.Value)]; old && n.Style == 0 {
		return b, nil
	}
	text, _ := json.Marshal(n.Value) // text can always be encoded
	return string(text), nil
}

// jsonToYAML returns JSON as a YAML node in the style of manifests.
func jsonToYAML(raw json.RawMessage) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	setPlainStyle(doc.Content[0])
	return doc.Content[0], nil
}

// plainText matches texts that need no quotes in any version of YAML, except words with a meaning such as yes and null.
var plainText = regexp.MustCompile(`^[A-Za-z/]([A-Za-z0-9_./:-]*[A-Za-z0-9_./-])?$`)

func setPlainStyle(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		n.Style = 0
	}
	_, word := oldBools[strings.ToLower(n.Value)]
	if n.Kind == yaml.ScalarNode && !word && len(n.Value) > 1 && plainText.MatchString(n.Value) {
		n.Style = 0 // the encoder quotes true and null
	}
	for _, child := range n.Content {
		setPlainStyle(child)
	}
}

// addNode adds a value to a YAML node at a path of names, as the operation "add" of JSONPatch does.
func addNode(at *yaml.Node, names []string, value *yaml.Node) error {
	name, last := names[0], len(names) == 1
	at.Style &^= yaml.FlowStyle // otherwise all additions would be on one line
	switch at.Kind {
	case yaml.MappingNode:
		member := findMember(at, name)
		switch {
		case member != nil && !last:
			return addNode(*member, names[1:], value)
		case member != nil:
			*member = value
		case last:
			key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}
			at.Content = append(at.Content, key, value)
		default:
			return fmt.Errorf("there is no %q", name)
		}
		return nil
	case yaml.SequenceNode:
		if last && name == "-" {
			at.Content = append(at.Content, value)
			return nil
		}
		i, err := strconv.Atoi(name)
		switch {
		case err != nil || i < 0 || i > len(at.Content) || !last && i == len(at.Content):
			return fmt.Errorf("there is no element %s", name)
		case last:
			at.Content = slices.Insert(at.Content, i, value)
			return nil
		}
		return addNode(at.Content[i], names[1:], value)
	}
	return errors.New("neither a mapping nor a list")
}
