package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
)

// policyFields are the fields of a locking policy in the configuration file.
type policyFields struct {
	Tables   []string `json:"tables"`
	Clauses  []string `json:"clauses,omitempty"`
	Policy   string   `json:"policy"`
	FencedBy string   `json:"fenced_by,omitempty"`
	Name     string   `json:"name,omitempty"`
}

// decodePolicies decodes a YAML list of locking policies, or JSON text of the same form. The error concerns only the
// form, because the policies' values are checked with the rest of the configuration.
func decodePolicies(raw any) ([]rewrite.LockPolicy, error) {
	var items []any
	switch raw := raw.(type) {
	case []rewrite.LockPolicy: // the type of the default
		return raw, nil
	case []any:
		items = raw
	case string:
		if strings.TrimSpace(raw) == "" {
			break
		}
		if err := json.Unmarshal([]byte(raw), &items); err != nil {
			return nil, fmt.Errorf("want a JSON list of policies: %w", err)
		}
	default:
		return nil, errors.New("want a list of policies")
	}
	list := make([]rewrite.LockPolicy, 0, len(items))
	var bad []string
	for i, item := range items {
		p, problems := decodePolicy(item)
		for _, problem := range problems {
			bad = append(bad, fmt.Sprintf("policy %d: %s", i+1, problem))
		}
		list = append(list, p)
	}
	if len(bad) > 0 {
		return nil, errors.New(strings.Join(bad, "; "))
	}
	return list, nil
}

func decodePolicy(item any) (p rewrite.LockPolicy, bad []string) {
	fields, ok := item.(map[string]any)
	if !ok {
		return p, []string{"want tables and policy"}
	}
	policy := ""
	names := map[string]any{"tables": &p.Tables, "clauses": &p.Clauses, "policy": &policy, "fenced_by": &p.FencedBy, "name": &p.Name}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch field := names[name].(type) {
		case *string:
			if *field, ok = fields[name].(string); !ok {
				bad = append(bad, name+": want text; put it in quotes")
			}
		case *[]string:
			var err error
			if *field, err = decodeList(fields[name]); err != nil {
				bad = append(bad, name+": "+err.Error())
			}
		default:
			bad = append(bad, "unknown field "+name+DidYouMean(name, slices.Sorted(maps.Keys(names))))
		}
	}
	p.Policy = rewrite.LockClausePolicy(policy)
	return p, bad
}

// formatPolicies returns a list of locking policies as JSON, which is valid YAML.
func formatPolicies(list []rewrite.LockPolicy) string {
	if len(list) == 0 {
		return "[]"
	}
	fields := make([]policyFields, len(list))
	for i, p := range list {
		fields[i] = policyFields{p.Tables, p.Clauses, string(p.Policy), p.FencedBy, p.Name}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err) // a policy has only strings
	}
	return string(text)
}
