package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// podPaths maps the kinds of Kubernetes' own objects to the path of the pod in them.
var podPaths = map[string]string{ // by group and kind
	"/Pod":                   "",
	"/PodTemplate":           "template",
	"/ReplicationController": "spec/template",
	"apps/Deployment":        "spec/template",
	"apps/StatefulSet":       "spec/template",
	"apps/DaemonSet":         "spec/template",
	"apps/ReplicaSet":        "spec/template",
	"batch/Job":              "spec/template",
	"batch/CronJob":          "spec/jobTemplate/spec/template",
}

// SkipNote is a remark about one object of a manifest that got no Sluice.
type SkipNote struct {
	Object string // such as Deployment web
	Reason string
}

// PatchManifest checks the pods and pod templates of a document, including those of a List, and returns one patch for
// all. PatchManifest ignores other kinds. The error has the reason for every refused object.
func (in *Injector) PatchManifest(doc json.RawMessage) (patch []PatchOperation, notes []SkipNote, err error) {
	if len(doc) == 0 || doc[0] != '{' {
		return nil, nil, nil // not an object of Kubernetes
	}
	object, err := parseObject(doc)
	if err != nil {
		return nil, nil, err
	}
	kind, _ := parseString(object["kind"])
	version, _ := parseString(object["apiVersion"])
	group, _, grouped := strings.Cut(version, "/")
	if !grouped {
		group = ""
	}
	if strings.HasSuffix(kind, "List") && !isNull(object["items"]) {
		return in.patchList(object["items"])
	}
	place, known := podPaths[group+"/"+kind]
	if !known {
		return nil, nil, nil
	}
	label := kind
	if metadata, err := parseObject(object["metadata"]); err == nil {
		if name, _ := parseString(metadata["name"]); name != "" {
			label += " " + name
		}
	}
	prefix := ""
	for name := range strings.SplitSeq(place, "/") {
		if name == "" {
			continue
		}
		if object, err = parseObject(doc); err != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", label, strings.TrimPrefix(prefix, "/"), err)
		}
		doc, prefix = object[name], prefix+"/"+name
	}
	v := in.JudgePod(doc)
	if v.Outcome == Refused {
		return nil, nil, fmt.Errorf("%s: %s", label, v.Reason)
	}
	if v.Outcome == Skipped {
		notes = []SkipNote{{label, v.Reason}}
	}
	return prefixPaths(prefix, v.Patch), notes, nil
}

// patchList returns the patch and the notes of PatchManifest for the items of a List.
func (in *Injector) patchList(items json.RawMessage) (patch []PatchOperation, notes []SkipNote, err error) {
	all, err := parseList(items)
	if err != nil {
		return nil, nil, fmt.Errorf("items: %w", err)
	}
	var errs []error
	for i, item := range all {
		steps, more, err := in.PatchManifest(item)
		patch = append(patch, prefixPaths("/items/"+strconv.Itoa(i), steps)...)
		notes = append(notes, more...)
		errs = append(errs, err)
	}
	return patch, notes, errors.Join(errs...)
}

// prefixPaths puts prefix, the path of an object, before each path of the object's patch.
func prefixPaths(prefix string, patch []PatchOperation) []PatchOperation {
	for i := range patch {
		patch[i].Path = prefix + patch[i].Path
	}
	return patch
}
