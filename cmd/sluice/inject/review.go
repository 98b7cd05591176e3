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

// maxWarning is the greatest length of a warning that Kubernetes shows.
const maxWarning = 256

// ReviewResult is the result of an admission request, for the log.
type ReviewResult struct {
	Verdict
	UID, Namespace, Pod string
	DryRun              bool
}

type admissionReview struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Response   admissionResponse `json:"response"`
}

type admissionResponse struct {
	UID       string           `json:"uid"`
	Allowed   bool             `json:"allowed"`
	Status    *admissionStatus `json:"status,omitempty"`
	Warnings  []string         `json:"warnings,omitempty"`
	PatchType string           `json:"patchType,omitempty"`
	Patch     []byte           `json:"patch,omitempty"`
}

type admissionStatus struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Review answers one AdmissionReview. The error says why the body is no AdmissionReview.
func (in *Injector) Review(body []byte) (answer []byte, r ReviewResult, err error) {
	request, object, r, err := parseReview(body)
	if err != nil {
		return nil, r, err
	}
	r.Verdict = in.judgeRequest(request, object, r.Namespace)
	d := admissionResponse{UID: r.UID, Allowed: r.Outcome != Refused}
	switch {
	case r.Outcome == Refused:
		d.Status = &admissionStatus{http.StatusUnprocessableEntity, "Invalid", "sluice: " + r.Reason}
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
	answer, err = json.Marshal(admissionReview{reviewVersion, "AdmissionReview", d})
	return answer, r, err
}

// parseReview parses a request body, which must be an AdmissionReview.
func parseReview(body []byte) (request map[string]json.RawMessage, object json.RawMessage, r ReviewResult, err error) {
	if !json.Valid(body) {
		return nil, nil, r, errors.New("not JSON")
	}
	review, err := parseObject(body)
	if err != nil {
		return nil, nil, r, fmt.Errorf("AdmissionReview: %w", err)
	}
	kind, _ := parseString(review["kind"])
	version, _ := parseString(review["apiVersion"])
	if kind != "AdmissionReview" || version != reviewVersion {
		return nil, nil, r, fmt.Errorf("want an AdmissionReview of %s", reviewVersion)
	}
	if request, err = parseObject(review["request"]); err != nil {
		return nil, nil, r, fmt.Errorf("request: %w", err)
	}
	if r.UID, _ = parseString(request["uid"]); r.UID == "" {
		return nil, nil, r, errors.New("request.uid: want text")
	}
	object = request["object"]
	r.Namespace, _ = parseString(request["namespace"])
	r.Pod, _ = parseString(request["name"])
	r.DryRun = string(request["dryRun"]) == "true"
	if metadata, err := parseObject(object); err == nil && r.Pod == "" {
		if metadata, err = parseObject(metadata["metadata"]); err == nil {
			r.Pod, _ = parseString(metadata["generateName"]) // the pod has no name yet
		}
	}
	return request, object, r, nil
}

// judgeRequest returns the verdict on the object of an admission request. judgeRequest skips everything but the
// creation of a pod, whatever the webhook is registered for.
func (in *Injector) judgeRequest(request map[string]json.RawMessage, object json.RawMessage, namespace string) Verdict {
	resource, err := parseObject(request["resource"])
	if err != nil {
		return refusedVerdict("request.resource: " + err.Error())
	}
	group, _ := parseString(resource["group"])
	name, _ := parseString(resource["resource"])
	part, _ := parseString(request["subResource"])
	operation, _ := parseString(request["operation"])
	switch {
	case group != "" || name != "pods" || part != "" || operation != "CREATE":
		return Verdict{Outcome: Skipped, Reason: "not the creation of a pod"}
	case slices.Contains(in.config.Exempt, namespace):
		return Verdict{Outcome: Skipped, Reason: "namespace " + namespace + " is exempt"}
	}
	return in.JudgePod(object)
}
