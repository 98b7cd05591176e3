// Command schemas writes the JSON Schemas for the tests of manifests, one file for each kind in use. It needs the Go
// module proxy. To take a new version, change the constants below and run
//
//	go run ./schemas
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// These Go modules are the sources of the schemas. Cert-manager's module contains its CRDs. The CRDs of the
// Prometheus operator are generated from Go types, with a program of the operator's authors.
const (
	kubernetes  = "k8s.io/kubernetes@v1.36.3"
	certManager = "github.com/cert-manager/cert-manager@v1.21.2"
	monitoring  = "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring@v0.95.0"
	controller  = "sigs.k8s.io/controller-tools/cmd/controller-gen@v0.21.0"
)

// folder is the directory for the files, relative to the module's root.
const folder = "schemas"

// core lists the kinds of Kubernetes itself, by group (without .k8s.io) and version.
var core = map[string][]string{
	"v1":                       {"ConfigMap", "Namespace", "Secret", "Service", "ServiceAccount"},
	"apps/v1":                  {"Deployment"},
	"batch/v1":                 {"Job"},
	"networking/v1":            {"NetworkPolicy"},
	"policy/v1":                {"PodDisruptionBudget"},
	"admissionregistration/v1": {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
}

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	if err := writeCore(); err != nil {
		return fmt.Errorf("%s: %w", kubernetes, err)
	}
	dir, err := download(certManager)
	if err != nil {
		return err
	}
	for _, name := range []string{"certificates", "issuers"} {
		text, err := os.ReadFile(filepath.Join(dir, "deploy/crds/cert-manager.io_"+name+".yaml"))
		if err != nil {
			return err
		}
		if err := writeCRD(text); err != nil {
			return fmt.Errorf("%s: %s: %w", certManager, name, err)
		}
	}
	if err := writeMonitoring(); err != nil {
		return fmt.Errorf("%s: %w", monitoring, err)
	}
	return nil
}

// download downloads a module and returns the directory of its files.
func download(module string) (string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w: %s", module, err, out)
	}
	var of struct{ Dir string }
	return of.Dir, json.Unmarshal(out, &of)
}

// writeCore writes the kinds of Kubernetes itself, each with the definitions to which it refers.
func writeCore() error {
	dir, err := download(kubernetes)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "api/openapi-spec/swagger.json"))
	if err != nil {
		return err
	}
	var spec struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	for groupVersion, kinds := range core {
		for _, kind := range kinds {
			name := "io.k8s.api." + strings.ReplaceAll(groupVersion, "/", ".") + "." + kind
			if groupVersion == "v1" {
				name = "io.k8s.api.core.v1." + kind
			}
			root := spec.Definitions[name]
			gvk, _ := root["x-kubernetes-group-version-kind"].([]any)
			if len(gvk) != 1 {
				return fmt.Errorf("%s: %d kinds", name, len(gvk))
			}
			of := gvk[0].(map[string]any)
			s := strict(root).(map[string]any)
			delete(s["properties"].(map[string]any), "status") // a manifest has none
			r := references{all: spec.Definitions, used: map[string]any{}, long: map[string]string{}}
			if err := r.follow(s); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			if r.used["resource.Quantity"] != nil {
				r.used["resource.Quantity"] = either("string", "number")
			}
			s["definitions"] = r.used
			if err := write(s, of["group"].(string), of["version"].(string), kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// references collects the definitions to which a schema refers. The key of a definition is the last two dotted parts
// of its name, for example v1.Pod.
type references struct {
	all  map[string]map[string]any
	used map[string]any
	long map[string]string // the whole names
}

// follow shortens the names of definitions in the references of a schema, and collects the definitions to which they
// refer.
func (r references) follow(of any) error {
	switch of := of.(type) {
	case map[string]any:
		if ref, is := of["$ref"].(string); is {
			long := strings.TrimPrefix(ref, "#/definitions/")
			words := strings.Split(long, ".")
			short := strings.Join(words[len(words)-2:], ".")
			of["$ref"] = "#/definitions/" + short
			switch known := r.long[short]; {
			case known == "":
				r.long[short], r.used[short] = long, strict(r.all[long])
				return r.follow(r.used[short])
			case known != long:
				return fmt.Errorf("%s and %s have one name", known, long)
			}
		}
		for _, below := range of {
			if err := r.follow(below); err != nil {
				return err
			}
		}
	case []any:
		for _, below := range of {
			if err := r.follow(below); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeMonitoring generates the CRDs of the Prometheus operator, in a copy of its module.
func writeMonitoring() error {
	dir, err := download(monitoring)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "schemas")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		return err
	}
	cmd := exec.Command("go", "run", controller, "crd:crdVersions=v1,maxDescLen=0,allowDangerousTypes=true", "paths=./v1/...", "output:crd:dir=crds")
	cmd.Dir, cmd.Stderr = work, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", controller, err)
	}
	for _, name := range []string{"podmonitors", "prometheusrules"} {
		text, err := os.ReadFile(filepath.Join(work, "crds/monitoring.coreos.com_"+name+".yaml"))
		if err != nil {
			return err
		}
		if err := writeCRD(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// writeCRD writes the schema of a CRD's version v1.
func writeCRD(text []byte) error {
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return err
	}
	for _, version := range crd.Spec.Versions {
		if version.Name != "v1" {
			continue
		}
		s := strict(version.Schema.OpenAPIV3Schema).(map[string]any)
		// The schema of a CRD does not describe metadata, which the API server knows.
		s["properties"].(map[string]any)["metadata"] = map[string]any{"type": "object", "required": []any{"name"}, "additionalProperties": false,
			"properties": map[string]any{"name": map[string]any{"type": "string"}, "namespace": map[string]any{"type": "string"}, "labels": texts(), "annotations": texts()}}
		return write(s, crd.Spec.Group, version.Name, crd.Spec.Names.Kind)
	}
	return fmt.Errorf("%s has no version v1", crd.Spec.Names.Kind)
}

func texts() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
}

// dropped lists keywords without a meaning to a JSON Schema validator, besides the x-kubernetes ones.
var dropped = []string{"description", "default", "example", "nullable"}

// strict returns a copy of a schema. The copy refuses null, and fields that the schema does not name.
func strict(of any) any {
	switch of := of.(type) {
	case map[string]any:
		if named, is := of["properties"].(map[string]any); is && isSchema(of) {
			return strictObject(of, named)
		}
		if of["x-kubernetes-int-or-string"] == true || of["format"] == "int-or-string" {
			return either("string", "integer")
		}
		s := map[string]any{}
		for keyword, value := range of {
			if !slices.Contains(dropped, keyword) && !strings.HasPrefix(keyword, "x-kubernetes-") {
				s[keyword] = strict(value)
			}
		}
		if of["format"] == "byte" { // which JSON Schema has not
			delete(s, "format")
			s["pattern"] = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
		}
		return s
	case []any:
		list := make([]any, len(of))
		for i, one := range of {
			list[i] = strict(one)
		}
		return list
	}
	return of
}

// isSchema reports whether a map is a JSON Schema, and not a map of fields of which one is called "properties".
func isSchema(of map[string]any) bool { _, typed := of["type"].(string); return typed }

func strictObject(of, named map[string]any) map[string]any {
	fields := map[string]any{}
	for name, field := range named {
		fields[name] = strict(field)
	}
	rest := maps.Clone(of)
	delete(rest, "properties")
	s := strict(rest).(map[string]any)
	s["properties"] = fields
	if of["additionalProperties"] == nil && of["x-kubernetes-preserve-unknown-fields"] != true {
		s["additionalProperties"] = false
	}
	return s
}

func either(types ...any) map[string]any { return map[string]any{"type": types} }

// write writes the schema of a kind, under the file name that kubeconform expects.
func write(s map[string]any, group, version, kind string) error {
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	fields := s["properties"].(map[string]any)
	delete(fields, "status")
	fields["apiVersion"] = map[string]any{"enum": []any{strings.TrimPrefix(group+"/"+version, "/")}}
	fields["kind"] = map[string]any{"enum": []any{kind}}
	required, _ := s["required"].([]any)
	required = append(required, "apiVersion", "kind", "metadata")
	slices.SortFunc(required, func(a, b any) int { return cmp.Compare(a.(string), b.(string)) })
	s["required"] = slices.Compact(required)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(s); err != nil {
		return err
	}
	name, _, _ := strings.Cut(group, ".")
	file := strings.ToLower(strings.Join(slices.DeleteFunc([]string{kind, name, version}, func(s string) bool { return s == "" }), "-"))
	return os.WriteFile(filepath.Join(folder, file+".json"), out.Bytes(), 0o644)
}
