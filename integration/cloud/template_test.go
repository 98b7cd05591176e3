package cloud

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"
)

// pseudo are CloudFormation's own parameters, as deploy/iam spells them.
var pseudo = map[string]any{"AWS::Partition": "aws", "AWS::Region": "REGION", "AWS::AccountId": "ACCOUNT"}

// stack is a template with parameters: what CloudFormation would make of it, as far
// as that can be known before it runs. A reference to a resource stays its name.
type stack struct {
	t          *testing.T
	root       map[string]any
	parameters map[string]any
}

// fn is a short form (!Ref, !Sub) that has been read, and not been resolved yet.
type fn struct {
	name string
	arg  any
}

// read parses a template and gives its parameters values: their defaults, or those
// given.
func read(t *testing.T, name string, given map[string]string) *stack {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy/cloudformation", name))
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	s := &stack{t: t, root: value(t, doc.Content[0]).(map[string]any), parameters: map[string]any{}}
	for parameter, about := range s.root["Parameters"].(map[string]any) {
		about := about.(map[string]any)
		v, ok := given[parameter]
		if !ok {
			if v, ok = about["Default"].(string); !ok {
				t.Fatalf("%s: %s has no default, and was not given", name, parameter)
			}
		}
		s.parameters[parameter] = v
	}
	for parameter := range given {
		if _, ok := s.parameters[parameter]; !ok {
			t.Fatalf("%s has no parameter %s", name, parameter)
		}
	}
	return s
}

// value turns a node into strings, booleans, lists, maps and short forms. A key
// that stands there twice is an error of yaml's.
func value(t *testing.T, n *yaml.Node) any {
	t.Helper()
	plain := *n
	if len(n.Tag) > 1 && n.Tag[0] == '!' && n.Tag[1] != '!' {
		plain.Tag = ""
		return fn{n.Tag[1:], value(t, &plain)}
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			if _, twice := m[n.Content[i].Value]; twice {
				t.Fatalf("line %d: %s stands there twice", n.Content[i].Line, n.Content[i].Value)
			}
			m[n.Content[i].Value] = value(t, n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, c := range n.Content {
			list = append(list, value(t, c))
		}
		return list
	case yaml.ScalarNode:
		if n.Tag == "!!bool" {
			return n.Value == "true"
		}
		return n.Value
	}
	t.Fatalf("line %d: a node of kind %d", n.Line, n.Kind)
	return nil
}

var variable = regexp.MustCompile(`\$\{([A-Za-z:]+)\}`)

// resolve carries out the short forms.
func (s *stack) resolve(v any) any {
	s.t.Helper()
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, part := range v {
			m[key] = s.resolve(part)
		}
		return m
	case []any:
		list := []any{}
		for _, part := range v {
			list = append(list, s.resolve(part))
		}
		return list
	case fn:
		return s.call(v)
	}
	return v
}

func (s *stack) call(f fn) any {
	s.t.Helper()
	switch f.name {
	case "Ref":
		return s.ref(f.arg.(string))
	case "GetAtt":
		return f.arg
	case "Sub":
		return variable.ReplaceAllStringFunc(f.arg.(string), func(v string) string {
			return fmt.Sprint(s.ref(v[2 : len(v)-1]))
		})
	}
	args, list := f.arg.([]any)
	switch {
	case f.name == "If" && len(args) == 3:
		if s.holds(args[0].(string)) {
			return s.resolve(args[1])
		}
		return s.resolve(args[2])
	case f.name == "Equals" && len(args) == 2:
		return s.resolve(args[0]) == s.resolve(args[1])
	case f.name == "Not" && len(args) == 1:
		return !s.resolve(args[0]).(bool)
	}
	s.t.Fatalf("!%s with %v (a list: %v) is not known here", f.name, f.arg, list)
	return nil
}

// ref is the value of a parameter, or the name of a resource that exists.
func (s *stack) ref(name string) any {
	s.t.Helper()
	if v, ok := pseudo[name]; ok {
		return v
	}
	if v, ok := s.parameters[name]; ok {
		return v
	}
	if s.resource(name) == nil {
		s.t.Fatalf("%s is neither parameter nor resource, or its condition does not hold", name)
	}
	return name
}

func (s *stack) holds(condition string) bool {
	s.t.Helper()
	c, ok := s.root["Conditions"].(map[string]any)[condition]
	if !ok {
		s.t.Fatalf("no condition %s", condition)
	}
	return s.resolve(c).(bool)
}

// resource is a resource that would be made, or nil.
func (s *stack) resource(name string) map[string]any {
	s.t.Helper()
	r, ok := s.root["Resources"].(map[string]any)[name].(map[string]any)
	if !ok {
		return nil
	}
	if c, ok := r["Condition"].(string); ok && !s.holds(c) {
		return nil
	}
	return r
}

// properties are those of a resource that would be made, resolved.
func (s *stack) properties(name string) map[string]any {
	s.t.Helper()
	r := s.resource(name)
	if r == nil {
		s.t.Fatalf("%s is not made", name)
	}
	return s.resolve(r["Properties"]).(map[string]any)
}

// made lists the resources of a type that would be made.
func (s *stack) made(kind string) []string {
	s.t.Helper()
	var names []string
	for name := range s.root["Resources"].(map[string]any) {
		if r := s.resource(name); r != nil && r["Type"] == kind {
			names = append(names, name)
		}
	}
	return names
}
