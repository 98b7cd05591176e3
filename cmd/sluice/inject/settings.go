package inject

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Prefix is the start of the names of all of Sluice's labels and annotations on pods.
const Prefix = "sluice.dev/"

// These are the names of labels and annotations after Prefix. InjectLabel is a label of a pod, because selectors see
// labels only. The others are annotations, besides those named after configuration keys.
const (
	InjectLabel   = "inject"         // "false" opts out
	Status        = "status"         // the outcome, written by the injector
	MemoryLimit   = "memory-limit"   // of the container
	MemoryRequest = "memory-request" // of the container
	CPURequest    = "cpu-request"    // of the container
	RoleARN       = "role-arn"       // asks for a token for this AWS role
	TokenAudience = "token-audience" // audience of that token
	PodIdentity   = "pod-identity"   // "true" asks for a token for EKS Pod Identity
)

// maxName is Kubernetes' bound on the part of a name after Prefix.
const maxName = 63

// ownAnnotations are the annotations with Prefix that are not configuration keys.
var ownAnnotations = []string{Status, MemoryLimit, MemoryRequest, CPURequest, RoleARN, TokenAudience, PodIdentity}

// Key describes a configuration key, which annotations of pods may set unless Refused says why not.
type Key struct {
	Name     string // in an annotation, after Prefix
	Variable string // in the container's environment
	Default  string
	// Refused says why no pod may set the key, or is "" if pods may.
	Refused string
	// Secret means that the key's value is never shown.
	Secret bool
}

// podSettings are the settings of a pod's sidecar that the pod's labels and annotations give.
type podSettings struct {
	values map[string]string // by configuration key, without defaults
	memory, memoryRequest,
	cpu string
	role, audience string // role is "" when the token is not for a role
	podIdentity    bool
}

// readAnnotations returns the settings that a pod's annotations give, which override those of the injector. The
// problems name annotation, value and remedy.
func (in *Injector) readAnnotations(annotations map[string]string) (w podSettings, problems []string) {
	w = podSettings{
		values: maps.Clone(in.settings),
		memory: in.config.MemoryLimit, memoryRequest: in.config.MemoryRequest, cpu: in.config.CPURequest,
	}
	for _, full := range slices.Sorted(maps.Keys(annotations)) {
		name, ours := strings.CutPrefix(full, Prefix)
		if !ours || name == Status {
			continue
		}
		value := annotations[full]
		refuse := func(format string, args ...any) {
			problems = append(problems, "annotation "+full+": "+fmt.Sprintf(format, args...))
		}
		if slices.Contains(ownAnnotations, name) {
			if problem := w.applyAnnotation(name, value); problem != "" {
				refuse("%q: %s", value, problem)
			}
			continue
		}
		key, known := in.keys[name]
		switch {
		case !known && (len(problems) >= maxProblems || len(name) > maxName):
			refuse("unknown configuration key") // a suggestion takes a while to compute
		case !known: // the value is not shown: it may be a secret under a misspelt name
			refuse("%s", in.unknownAnnotation(name))
		case key.Secret:
			refuse("%s", key.Refused)
		case key.Refused != "":
			refuse("%q: %s", value, key.Refused)
		default:
			w.values[name] = value
		}
	}
	return w, append(problems, w.checkCombination(annotations)...)
}

// applyAnnotation sets the value of an annotation that is not a configuration key, and returns its problem, or "".
func (w *podSettings) applyAnnotation(name, value string) (problem string) {
	var err error
	switch name {
	case MemoryLimit:
		_, err = parseQuantity(value)
		w.memory = value
	case MemoryRequest:
		_, err = parseQuantity(value)
		w.memoryRequest = value
	case CPURequest:
		_, err = parseQuantity(value)
		w.cpu = value
	case RoleARN:
		w.role = value
		if !strings.HasPrefix(value, "arn:") || strings.ContainsAny(value, " \t\r\n") {
			return "want the ARN of a role, arn:aws:iam::<account>:role/<name>"
		}
	case TokenAudience:
		w.audience = value
		if value == "" {
			return "want who the token is for, such as " + audienceSTS
		}
	case PodIdentity:
		w.podIdentity = value == "true"
		if value != "true" && value != "false" {
			return "want true or false"
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// minMemoryLimit is the lowest memory limit with which Sluice starts and serves.
const minMemoryLimit = "64Mi"

// checkCombination returns the problems of annotations that do not fit together, such as an audience without a role.
func (w *podSettings) checkCombination(annotations map[string]string) (problems []string) {
	least, _ := parseQuantity(minMemoryLimit)
	limit, errLimit := parseQuantity(w.memory)
	if errLimit == nil && limit.Cmp(least) < 0 {
		problems = append(problems, fmt.Sprintf("annotation %s: %q: want at least %s", Prefix+MemoryLimit, w.memory, minMemoryLimit))
	}
	request, err := parseQuantity(w.memoryRequest)
	if errLimit == nil && err == nil && request.Cmp(limit) > 0 {
		_, asked := annotations[Prefix+MemoryRequest]
		if !asked { // the request follows a low limit
			w.memoryRequest = w.memory
		} else {
			problems = append(problems, fmt.Sprintf("annotation %s: %q: want at most the limit, %s", Prefix+MemoryRequest, w.memoryRequest, w.memory))
		}
	}
	if w.audience != "" && w.role == "" {
		problems = append(problems, fmt.Sprintf("annotation %s: %q: set %s too: the token is for a role", Prefix+TokenAudience, w.audience, Prefix+RoleARN))
	}
	if w.podIdentity && w.role != "" {
		problems = append(problems, fmt.Sprintf("annotation %s: \"true\": %s asks for another kind of credentials; leave one out", Prefix+PodIdentity, Prefix+RoleARN))
	}
	return problems
}

// unknownAnnotation returns the message about an unknown annotation.
func (in *Injector) unknownAnnotation(name string) string {
	switch name {
	case InjectLabel:
		return "this is a label of the pod; write it below metadata.labels"
	case "injection":
		return "this is a label of the namespace"
	}
	hint := ""
	if in.config.Suggest != nil {
		hint = in.config.Suggest(name)
	}
	return "unknown configuration key" + hint
}

// hasOptedOut reports whether the pod's label opts out of Sluice. problem is about a label with an unknown value.
func hasOptedOut(labels map[string]string) (out bool, problem string) {
	value, set := labels[Prefix+InjectLabel]
	if set && value != "true" && value != "false" {
		return false, fmt.Sprintf("label %s: %q: want true or false", Prefix+InjectLabel, value)
	}
	return value == "false", ""
}
