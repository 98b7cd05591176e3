package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// templates maps Kubernetes' own kinds to the path of their pod.
var templates = map[string]string{ // by group and kind
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

// Note is a remark about one object of a manifest that got no Sluice.
type Note struct {
	Object string // such as Deployment web
	Reason string
}

// Manifest checks the pods and pod templates of a document, including those of a List, and returns
// one patch for all. It ignores other kinds. The error has the reason for every refused object.
func (in *Injector) Manifest(doc json.RawMessage) (patch []Operation, notes []Note, err error) {
	if len(doc) == 0 || doc[0] != '{' {
		return nil, nil, nil // not an object of Kubernetes
	}
	object, err := members(doc)
	if err != nil {
		return nil, nil, err
	}
	kind, _ := textOf(object["kind"])
	version, _ := textOf(object["apiVersion"])
	group, _, grouped := strings.Cut(version, "/")
	if !grouped {
		group = ""
	}
	if strings.HasSuffix(kind, "List") && !isNull(object["items"]) {
		return in.list(object["items"])
	}
	place, known := templates[group+"/"+kind]
	if !known {
		return nil, nil, nil
	}
	label := kind
	if metadata, err := members(object["metadata"]); err == nil {
		if name, _ := textOf(metadata["name"]); name != "" {
			label += " " + name
		}
	}
	prefix := ""
	for name := range strings.SplitSeq(place, "/") {
		if name == "" {
			continue
		}
		if object, err = members(doc); err != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", label, strings.TrimPrefix(prefix, "/"), err)
		}
		doc, prefix = object[name], prefix+"/"+name
	}
	v := in.Pod(doc)
	if v.Outcome == Refused {
		return nil, nil, fmt.Errorf("%s: %s", label, v.Reason)
	}
	if v.Outcome == Skipped {
		notes = []Note{{label, v.Reason}}
	}
	return below(prefix, v.Patch), notes, nil
}

// list returns the patch and the notes of Manifest for the items of a List.
func (in *Injector) list(items json.RawMessage) (patch []Operation, notes []Note, err error) {
	all, err := elements(items)
	if err != nil {
		return nil, nil, fmt.Errorf("items: %w", err)
	}
	var errs []error
	for i, item := range all {
		steps, more, err := in.Manifest(item)
		patch = append(patch, below("/items/"+strconv.Itoa(i), steps)...)
		notes = append(notes, more...)
		errs = append(errs, err)
	}
	return patch, notes, errors.Join(errs...)
}

// below prefixes the paths of a patch with the path of its object.
func below(prefix string, patch []Operation) []Operation {
	for i := range patch {
		patch[i].Path = prefix + patch[i].Path
	}
	return patch
}
