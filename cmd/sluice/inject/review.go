package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// reviewVersion is the supported version of AdmissionReview.
const reviewVersion = "admission.k8s.io/v1"

// maxWarning is the length of a warning that Kubernetes shows.
const maxWarning = 256

// Reviewed is the result of a request, for the log.
type Reviewed struct {
	Verdict
	UID, Namespace, Pod string
	DryRun              bool
}

type response struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Response   decision `json:"response"`
}

type decision struct {
	UID       string   `json:"uid"`
	Allowed   bool     `json:"allowed"`
	Status    *status  `json:"status,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	PatchType string   `json:"patchType,omitempty"`
	Patch     []byte   `json:"patch,omitempty"`
}

type status struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Review answers one AdmissionReview. The error says why the body is not one.
func (in *Injector) Review(body []byte) (answer []byte, r Reviewed, err error) {
	request, object, r, err := parseReview(body)
	if err != nil {
		return nil, r, err
	}
	r.Verdict = in.judge(request, object, r.Namespace)
	d := decision{UID: r.UID, Allowed: r.Outcome != Refused}
	switch {
	case r.Outcome == Refused:
		d.Status = &status{http.StatusUnprocessableEntity, "Invalid", "sluice: " + r.Reason}
	case len(r.Patch) > 0:
		d.PatchType = "JSONPatch"
		if d.Patch, err = json.Marshal(r.Patch); err != nil {
			return nil, r, err
		}
	}
	if r.Warned {
		warning := "sluice: the pod gets no Sluice: " + r.Reason
		d.Warnings = []string{warning[:min(len(warning), maxWarning)]}
	}
	answer, err = json.Marshal(response{reviewVersion, "AdmissionReview", d})
	return answer, r, err
}

// parseReview parses a request body.
func parseReview(body []byte) (request map[string]json.RawMessage, object json.RawMessage, r Reviewed, err error) {
	if !json.Valid(body) {
		return nil, nil, r, errors.New("not JSON")
	}
	review, err := members(body)
	if err != nil {
		return nil, nil, r, fmt.Errorf("AdmissionReview: %w", err)
	}
	kind, _ := textOf(review["kind"])
	version, _ := textOf(review["apiVersion"])
	if kind != "AdmissionReview" || version != reviewVersion {
		return nil, nil, r, fmt.Errorf("want an AdmissionReview of %s", reviewVersion)
	}
	if request, err = members(review["request"]); err != nil {
		return nil, nil, r, fmt.Errorf("request: %w", err)
	}
	if r.UID, _ = textOf(request["uid"]); r.UID == "" {
		return nil, nil, r, errors.New("request.uid: want text")
	}
	object = request["object"]
	r.Namespace, _ = textOf(request["namespace"])
	r.Pod, _ = textOf(request["name"])
	r.DryRun = string(request["dryRun"]) == "true"
	if metadata, err := members(object); err == nil && r.Pod == "" {
		if metadata, err = members(metadata["metadata"]); err == nil {
			r.Pod, _ = textOf(metadata["generateName"]) // the pod has no name yet
		}
	}
	return request, object, r, nil
}

// judge returns the verdict on the object of a request. It skips everything but the creation of a
// pod, whatever the webhook is registered for.
func (in *Injector) judge(request map[string]json.RawMessage, object json.RawMessage, namespace string) Verdict {
	resource, err := members(request["resource"])
	if err != nil {
		return refused("request.resource: " + err.Error())
	}
	group, _ := textOf(resource["group"])
	name, _ := textOf(resource["resource"])
	part, _ := textOf(request["subResource"])
	operation, _ := textOf(request["operation"])
	switch {
	case group != "" || name != "pods" || part != "" || operation != "CREATE":
		return Verdict{Outcome: Skipped, Reason: "not the creation of a pod"}
	case slices.Contains(in.config.Exempt, namespace):
		return Verdict{Outcome: Skipped, Reason: "namespace " + namespace + " is exempt"}
	}
	return in.Pod(object)
}
