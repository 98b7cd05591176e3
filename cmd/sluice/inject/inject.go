package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Config holds the settings of an Injector, which adds Sluice's container to pods.
type Config struct {
	Image, PullPolicy                      string
	MemoryLimit, MemoryRequest, CPURequest string // quantities
	// Settings are the values, by configuration key, that every injected container gets. Annotations override them.
	Settings map[string]string
	// Keys are all configuration keys, in the order of the container's variables.
	Keys []Key
	// Check returns the problems of a configuration, in lines that begin with a configuration key and a colon.
	Check func(values map[string]string) []string
	// Suggest returns the end of a message about an unknown name, such as a similar name, or "".
	Suggest func(name string) string
	// Exempt lists namespaces whose pods are not changed.
	Exempt []string
}

// adminAddress is the address for probes and scrapes in an injected container. A kubelet uses the pod's address.
const adminAddress = ":9432"

// Injector returns verdicts on pods. An Injector stores nothing about pods and is safe for concurrent use.
type Injector struct {
	config   Config
	keys     map[string]Key
	settings map[string]string
}

// New returns an Injector, or one error that lists everything wrong with the configuration.
func New(c Config) (*Injector, error) {
	in := &Injector{config: c, keys: map[string]Key{}, settings: map[string]string{"admin.address": adminAddress}}
	for _, key := range c.Keys {
		in.keys[key.Name] = key
	}
	maps.Copy(in.settings, c.Settings)

	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(c.Image != "" && !strings.ContainsAny(c.Image, " \t\r\n"), "image: %q: want the reference of Sluice's image", c.Image)
	for _, q := range []struct{ name, value string }{{"memory limit", c.MemoryLimit}, {"memory request", c.MemoryRequest}, {"CPU request", c.CPURequest}} {
		_, err := parseQuantity(q.value)
		want(err == nil, "%s: %q: %w", q.name, q.value, err)
	}
	for name := range c.Settings {
		key, known := in.keys[name]
		want(known, "setting %s: %s", name, in.unknownAnnotation(name))
		want(key.Refused == "", "setting %s: %s", name, key.Refused)
	}
	_, _, problems := in.checkValues(in.settings)
	for _, problem := range problems { // a missing setting is not a fault: a pod may set it
		name, _, _ := strings.Cut(problem, ":")
		_, set := c.Settings[name]
		want(!set, "setting %s", problem)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return in, errors.Join(errs...)
}

// Outcome says what an Injector did with a pod.
type Outcome string

// These are all outcomes. A skipped pod that opted out, or that has its own Sluice, is not changed at all.
const (
	Injected Outcome = "injected"
	Present  Outcome = "present" // injected by an earlier call
	Skipped  Outcome = "skipped"
	Refused  Outcome = "refused"
)

// Outcomes lists all values of an Outcome, what an Injector did with a pod.
var Outcomes = []Outcome{Injected, Present, Skipped, Refused}

// Verdict is the injector's decision on a pod: an Outcome, its reason, and the patch that implements it.
type Verdict struct {
	Outcome Outcome
	Reason  string // for Skipped and Refused
	Patch   []PatchOperation
	// Warned says that the pod's creator should get a warning with the reason of Skipped. The pod has not asked to
	// be skipped.
	Warned bool
}

// These are values of the annotation that records what the injector did to a pod.
const (
	statusInjected = "injected"
	statusSkipped  = "skipped: "
)

// maxProblems and maxProblem bound the text of a refusal, because an unchecked pod may hold anything in any number.
const (
	maxProblems = 20
	maxProblem  = 512 // bytes
)

func refusedVerdict(problems ...string) Verdict {
	shown := make([]string, 0, maxProblems+1)
	for i, problem := range problems {
		if i == maxProblems {
			shown = append(shown, fmt.Sprintf("and %d more", len(problems)-i))
			break
		}
		if len(problem) > maxProblem {
			problem = strings.ToValidUTF8(problem[:maxProblem], "") + "..."
		}
		shown = append(shown, problem)
	}
	return Verdict{Outcome: Refused, Reason: strings.Join(shown, "; ")}
}

// JudgePod returns the verdict on a pod or a pod template, in JSON.
func (in *Injector) JudgePod(raw json.RawMessage) Verdict {
	p, err := parsePod(raw)
	if err != nil {
		return refusedVerdict(err.Error())
	}
	out, problem := hasOptedOut(p.labels)
	there, injected := p.findSluice()
	switch {
	case p.isMirror():
		return Verdict{Outcome: Skipped, Reason: "a static pod of its node"}
	case problem != "":
		return refusedVerdict(problem)
	case out:
		return Verdict{Outcome: Skipped, Reason: fmt.Sprintf("label %s: %q", Prefix+InjectLabel, "false")}
	case there && !injected:
		return Verdict{Outcome: Skipped, Reason: "the pod has a container " + Container + " of its own"}
	case !there && p.unfitReason() != "":
		return p.skipVerdict(p.unfitReason())
	}

	w, problems := in.readAnnotations(p.annotations)
	listen, admin, wrong := in.checkValues(w.values)
	for _, problem := range wrong {
		problems = append(problems, in.addAnnotationName(problem, p.annotations))
	}
	problems = append(problems, p.findClashes(listen, admin, slices.Sorted(maps.Keys(w.neededVolumes())))...)
	switch {
	case len(problems) > 0:
		return refusedVerdict(problems...)
	case there:
		return Verdict{Outcome: Present}
	}
	return Verdict{Outcome: Injected, Patch: p.buildPatch(in.newContainer(w, admin), w)}
}

// checkValues returns the problems of a whole configuration and the container's ports. The problems are lines that
// begin with a key and a colon.
func (in *Injector) checkValues(values map[string]string) (listen, admin int, problems []string) {
	problems = in.config.Check(values)
	address, set := values["listen.address"]
	if !set {
		address = in.keys["listen.address"].Default
	}
	listen, admin = portOf(address), portOf(values["admin.address"])
	bad := func(key, value, remedy string) {
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, key+":") }) {
			problems = append(problems, fmt.Sprintf("%s: %q: %s", key, value, remedy))
		}
	}
	switch at := values["admin.address"]; {
	case admin == 0:
		bad("admin.address", at, "want a port, such as "+adminAddress+": the startup probe asks there")
	case isLoopback(at):
		bad("admin.address", at, "want the pod's address, such as "+adminAddress+": the kubelet's startup probe asks there")
	case admin == listen:
		bad("admin.address", at, "want another port than listen.address, "+address)
	}
	if listen == 0 && address != "" {
		bad("listen.address", address, "want a port, such as 127.0.0.1:5432")
	}
	return listen, admin, problems
}

// addAnnotationName adds to a problem of a configuration key the annotation that sets the key, or that may set it.
func (in *Injector) addAnnotationName(problem string, annotations map[string]string) string {
	name, _, _ := strings.Cut(problem, ":")
	if _, annotated := annotations[Prefix+name]; annotated {
		return "annotation " + Prefix + problem
	}
	if key, known := in.keys[name]; known && key.Refused == "" {
		return problem + "; annotation " + Prefix + name + " sets it"
	}
	return problem
}

// buildPatch returns the patch that adds Sluice's container to the pod. The container comes before all others, so that
// init containers can use the database too.
func (p *pod) buildPatch(c container, w podSettings) []PatchOperation {
	patch := []PatchOperation{p.statusOperation(statusInjected)}
	if p.hasInit {
		patch = append(patch, addOperation(c, "spec", "initContainers", "0"))
	} else {
		patch = append(patch, addOperation([]container{c}, "spec", "initContainers"))
	}
	volumes := w.neededVolumes()
	there := p.hasVolumes
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		if there {
			patch = append(patch, addOperation(volumes[name], "spec", "volumes", "-"))
		} else {
			patch = append(patch, addOperation([]any{volumes[name]}, "spec", "volumes"))
		}
		there = true
	}
	return patch
}

// skipVerdict returns the verdict that leaves the pod without Sluice. Its patch records that in an annotation.
func (p *pod) skipVerdict(reason string) Verdict {
	v := Verdict{Outcome: Skipped, Reason: reason, Warned: true}
	if p.annotations[Prefix+Status] != statusSkipped+reason {
		v.Patch = []PatchOperation{p.statusOperation(statusSkipped + reason)}
	}
	return v
}

// statusOperation returns the operation of a patch that sets the annotation with the outcome.
func (p *pod) statusOperation(status string) PatchOperation {
	switch {
	case p.hasAnnotations:
		return addOperation(status, "metadata", "annotations", Prefix+Status)
	case p.hasMetadata:
		return addOperation(map[string]string{Prefix + Status: status}, "metadata", "annotations")
	}
	return addOperation(map[string]map[string]string{"annotations": {Prefix + Status: status}}, "metadata")
}
