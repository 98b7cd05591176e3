package inject

import (
	"encoding/json"
	"strconv"
	"strings"
)

// These are the names of the container, volumes, folders and ports that are added to a pod.
const (
	Container   = "sluice"
	tokenVolume = "sluice-token"
	tokenFolder = "/var/run/secrets/sluice.dev/serviceaccount"
	leaseVolume = "sluice-lease"
	leaseFolder = "/var/run/sluice"
	// metricsPort is the name of the metrics port, for a PodMonitor. A port's name has at most 15 letters.
	metricsPort = "sluice-metrics"
)

// These are the audiences of projected tokens, and the URL of EKS Pod Identity's agent.
const (
	audienceSTS         = "sts.amazonaws.com"
	audiencePodIdentity = "pods.eks.amazonaws.com"
	podIdentityAgent    = "http://169.254.170.23/v1/credentials"
)

// memoryPercent is the percentage of the container's memory limit that GOMEMLIMIT gets. Go does not count the parser's
// memory and the stacks of threads.
const memoryPercent = 80

// These types describe the JSON of Sluice's container, for encoding only.
type (
	container struct {
		Name            string          `json:"name"`
		Image           string          `json:"image"`
		ImagePullPolicy string          `json:"imagePullPolicy,omitempty"`
		Args            []string        `json:"args"`
		RestartPolicy   string          `json:"restartPolicy"`
		Env             []variable      `json:"env"`
		Ports           []port          `json:"ports"`
		StartupProbe    probe           `json:"startupProbe"`
		Resources       resources       `json:"resources"`
		SecurityContext json.RawMessage `json:"securityContext"`
		// TerminationMessagePolicy makes Kubernetes show the last lines of the container's log, which say why a
		// configuration was refused.
		TerminationMessagePolicy string  `json:"terminationMessagePolicy"`
		VolumeMounts             []mount `json:"volumeMounts,omitempty"`
	}
	variable struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	port struct {
		Name          string `json:"name"`
		ContainerPort int    `json:"containerPort"`
	}
	probe struct {
		HTTPGet          httpGet `json:"httpGet"`
		PeriodSeconds    int     `json:"periodSeconds"`
		FailureThreshold int     `json:"failureThreshold"`
	}
	httpGet struct {
		Path string `json:"path"`
		Port int    `json:"port"`
	}
	resources struct {
		Requests map[string]string `json:"requests"`
		Limits   map[string]string `json:"limits"`
	}
	mount struct {
		Name      string `json:"name"`
		MountPath string `json:"mountPath"`
		ReadOnly  bool   `json:"readOnly"`
	}
)

// restrictedContext is a security context that satisfies the profile "restricted" of Pod Security.
var restrictedContext = json.RawMessage(`{"runAsNonRoot":true,"runAsUser":65532,"runAsGroup":65532,"readOnlyRootFilesystem":true,` +
	`"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`)

// newContainer returns Sluice's container for a pod's settings. adminPort is the container's port for probes. The
// container has no preStop, which would run before the application ends. The container has no readinessProbe, which
// would count for the whole pod, and no livenessProbe, which would end every session.
func (in *Injector) newContainer(w podSettings, adminPort int) container {
	limit, _ := parseQuantity(w.memory) // read has checked it
	c := container{
		Name: Container, Image: in.config.Image, ImagePullPolicy: in.config.PullPolicy,
		Args: []string{"serve"}, RestartPolicy: "Always",
		Ports:        []port{{metricsPort, adminPort}},
		StartupProbe: probe{httpGet{"/startupz", adminPort}, 1, 60},
		Resources: resources{
			Requests: map[string]string{"cpu": w.cpu, "memory": w.memoryRequest},
			Limits:   map[string]string{"memory": w.memory},
		},
		SecurityContext:          restrictedContext,
		TerminationMessagePolicy: "FallbackToLogsOnError",
	}
	for _, key := range in.config.Keys {
		if value, set := w.values[key.Name]; set {
			c.Env = append(c.Env, variable{key.Variable, escapeVariable(value)})
		}
	}
	c.Env = append(c.Env, variable{"DSQL_DRAIN_MODE", "native"}, variable{"GOMEMLIMIT", percentInBytes(limit, memoryPercent)})
	if w.tokenAudience() != "" {
		c.VolumeMounts = append(c.VolumeMounts, mount{tokenVolume, tokenFolder, true})
	}
	if w.usesLease() {
		c.VolumeMounts = append(c.VolumeMounts, mount{leaseVolume, leaseFolder, false})
		c.Env = append(c.Env, variable{"DSQL_DISTRIBUTED_CONN_LEASE_FILE", leaseFolder + "/lease"})
	}
	switch {
	case w.role != "":
		c.Env = append(c.Env, variable{"AWS_ROLE_ARN", escapeVariable(w.role)}, variable{"AWS_WEB_IDENTITY_TOKEN_FILE", tokenFolder + "/token"})
	case w.podIdentity:
		c.Env = append(c.Env, variable{"AWS_CONTAINER_CREDENTIALS_FULL_URI", podIdentityAgent},
			variable{"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", tokenFolder + "/token"})
	}
	return c
}

// escapeVariable escapes text, because Kubernetes expands $(NAME) in a variable's value.
func escapeVariable(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// tokenAudience returns the audience of the pod's projected token, or "" for no token.
func (w *podSettings) tokenAudience() string {
	switch {
	case w.podIdentity:
		return audiencePodIdentity
	case w.role == "":
		return ""
	case w.audience == "":
		return audienceSTS
	}
	return w.audience
}

// usesLease reports whether the pod shares the cluster's connection count with other pods.
func (w *podSettings) usesLease() bool {
	on, _ := strconv.ParseBool(w.values["distributed.conn_lease_enabled"])
	return on
}

// neededVolumes returns the volumes that the container needs, by name.
func (w *podSettings) neededVolumes() map[string]any {
	volumes := make(map[string]any)
	if w.tokenAudience() != "" {
		volumes[tokenVolume] = w.projectedTokenVolume()
	}
	if w.usesLease() {
		// emptyDir is a volume with the lifetime of the pod, which other containers do not see. The volume is in
		// memory, because a volume on disk would stop the cluster's autoscaler from removing the node.
		type emptyDir struct {
			Medium    string `json:"medium"`
			SizeLimit string `json:"sizeLimit"`
		}
		volumes[leaseVolume] = struct {
			Name     string   `json:"name"`
			EmptyDir emptyDir `json:"emptyDir"`
		}{leaseVolume, emptyDir{"Memory", "1Mi"}}
	}
	return volumes
}

// projectedTokenVolume returns a volume with the projected token of the pod's service account.
func (w *podSettings) projectedTokenVolume() any {
	type token struct {
		Audience          string `json:"audience"`
		ExpirationSeconds int    `json:"expirationSeconds"`
		Path              string `json:"path"`
	}
	type source struct {
		ServiceAccountToken token `json:"serviceAccountToken"`
	}
	type projected struct {
		Sources []source `json:"sources"`
	}
	return struct {
		Name      string    `json:"name"`
		Projected projected `json:"projected"`
	}{tokenVolume, projected{[]source{{token{w.tokenAudience(), 86400, "token"}}}}}
}
