package inject

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// pod holds the parts of a Kubernetes pod that matter to the injector.
type pod struct {
	labels, annotations map[string]string
	hasMetadata         bool
	hasAnnotations      bool
	hostNetwork         bool
	windows             bool
	// containers lists all containers. hasInit and hasVolumes say whether the pod has these lists.
	containers          []podContainer
	hasInit, hasVolumes bool
	volumes             []string
}

type podContainer struct {
	list    string // containers, initContainers or ephemeralContainers
	name    string
	sidecar bool // an init container that runs as long as the pod
	ports   []int
}

// parsePod parses the JSON of a pod or a pod template.
func parsePod(raw json.RawMessage) (p *pod, err error) {
	top, err := parseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("pod: %w", err)
	}
	p = &pod{hasMetadata: !isNull(top["metadata"])}
	metadata, err := parseObject(top["metadata"])
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	p.hasAnnotations = !isNull(metadata["annotations"])
	if p.labels, err = parseStringMap(metadata["labels"]); err != nil {
		return nil, fmt.Errorf("metadata.labels: %w", err)
	}
	if p.annotations, err = parseStringMap(metadata["annotations"]); err != nil {
		return nil, fmt.Errorf("metadata.annotations: %w", err)
	}
	if isNull(top["spec"]) {
		return nil, fmt.Errorf("spec: there is none")
	}
	spec, err := parseObject(top["spec"])
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	return p, p.readSpec(spec)
}

func (p *pod) readSpec(spec map[string]json.RawMessage) error {
	p.hostNetwork = string(spec["hostNetwork"]) == "true"
	p.hasInit, p.hasVolumes = !isNull(spec["initContainers"]), !isNull(spec["volumes"])
	os, err := parseObject(spec["os"])
	if err != nil {
		return fmt.Errorf("spec.os: %w", err)
	}
	selector, err := parseObject(spec["nodeSelector"])
	if err != nil {
		return fmt.Errorf("spec.nodeSelector: %w", err)
	}
	for _, raw := range []json.RawMessage{os["name"], selector["kubernetes.io/os"]} {
		system, _ := parseString(raw)
		p.windows = p.windows || system == "windows"
	}
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		if err := p.readContainers(list, spec[list]); err != nil {
			return fmt.Errorf("spec.%s%w", list, err)
		}
	}
	volumes, err := parseList(spec["volumes"])
	if err != nil {
		return fmt.Errorf("spec.volumes: %w", err)
	}
	for i, raw := range volumes {
		volume, err := parseObject(raw)
		if err != nil {
			return fmt.Errorf("spec.volumes[%d]: %w", i, err)
		}
		name, _ := parseString(volume["name"])
		p.volumes = append(p.volumes, name)
	}
	return nil
}

// readContainers adds a list of containers to the pod. The caller puts the list's name before the text of the error.
func (p *pod) readContainers(list string, raw json.RawMessage) error {
	all, err := parseList(raw)
	if err != nil {
		return fmt.Errorf(": %w", err)
	}
	for i, raw := range all {
		fields, err := parseObject(raw)
		if err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		c := podContainer{list: list}
		c.name, _ = parseString(fields["name"])
		policy, _ := parseString(fields["restartPolicy"])
		c.sidecar = list == "initContainers" && policy == "Always"
		ports, err := parseList(fields["ports"])
		if err != nil {
			return fmt.Errorf("[%d].ports: %w", i, err)
		}
		for j, raw := range ports {
			number, err := tcpPort(raw)
			if err != nil {
				return fmt.Errorf("[%d].ports[%d]: %w", i, j, err)
			}
			c.ports = append(c.ports, number)
		}
		p.containers = append(p.containers, c)
	}
	return nil
}

// tcpPort returns the TCP port that a container declares, or 0 for other protocols.
func tcpPort(raw json.RawMessage) (int, error) {
	fields, err := parseObject(raw)
	if err != nil {
		return 0, err
	}
	if protocol, set := parseString(fields["protocol"]); set && protocol != "TCP" {
		return 0, nil
	}
	number, err := strconv.ParseFloat(string(fields["containerPort"]), 64) // 5432.0 is also a port
	if err != nil || number != float64(int(number)) {
		return 0, nil // the API server refuses it
	}
	return int(number), nil
}

// isMirror reports whether a kubelet made the pod from a file on its node. Mirror pods must not be
// changed.
func (p *pod) isMirror() bool {
	_, set := p.annotations["kubernetes.io/config.mirror"]
	return set
}

// findSluice reports whether a container with Sluice's name runs in the pod, and whether this package
// has added it.
func (p *pod) findSluice() (there, injected bool) {
	marked := p.annotations[Prefix+Status] == statusInjected
	for _, c := range p.containers {
		switch {
		case c.name != Container:
		case c.sidecar:
			return true, marked
		case c.list == "containers":
			return true, false
		}
	}
	return false, false
}

// unfitReason returns why Sluice cannot be a sidecar of the pod, or "" when it can.
func (p *pod) unfitReason() string {
	switch {
	case p.hostNetwork:
		return "hostNetwork: Sluice's ports would be the node's"
	case p.windows:
		return "Windows: the image is for Linux"
	}
	return ""
}

// findClashes returns the names and ports of the pod that clash with those of Sluice's container. A port of 0 means
// none.
func (p *pod) findClashes(listen, admin int, volumes []string) (problems []string) {
	for _, c := range p.containers {
		if c.name == Container {
			switch {
			case c.sidecar, c.list == "containers": // Sluice itself
			case c.list == "initContainers" && p.annotations[Prefix+Status] == statusInjected:
				problems = append(problems, fmt.Sprintf("init container %s has lost its restartPolicy Always: "+
					"a webhook or a tool between that does not know the field; bring it up to date", Container))
			default:
				problems = append(problems, fmt.Sprintf("spec.%s: the name %s is taken: it is Sluice's; rename the container", c.list, Container))
			}
			continue
		}
		for _, taken := range []struct {
			port int
			key  string
			free string
		}{{listen, "listen.address", "127.0.0.1:6432"}, {admin, "admin.address", ":19432"}} {
			if taken.port != 0 && slices.Contains(c.ports, taken.port) {
				problems = append(problems, fmt.Sprintf("container %s declares port %d, which is Sluice's %s: take another one in the container, "+
					"or set annotation %s%s, such as %q", c.name, taken.port, taken.key, Prefix, taken.key, taken.free))
			}
		}
	}
	if there, _ := p.findSluice(); there {
		return problems
	}
	for _, name := range volumes {
		if slices.Contains(p.volumes, name) {
			problems = append(problems, fmt.Sprintf("spec.volumes: the name %s is taken: it is Sluice's; rename the volume", name))
		}
	}
	return problems
}

// portOf returns the port of an address, or 0 for none.
func portOf(address string) int {
	_, text, err := net.SplitHostPort(address)
	number, errNumber := strconv.ParseUint(text, 10, 16)
	if err != nil || errNumber != nil {
		return 0
	}
	return int(number)
}

// isLoopback reports whether an address can be reached from the pod only.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback())
}
