package packaging

import (
	"strings"
	"testing"
	"time"
)

// unit reads a unit of systemd: its directives by section, each with all its values.
func unit(t *testing.T, name string) map[string]map[string][]string {
	t.Helper()
	sections := map[string]map[string][]string{}
	section := ""
	for line := range strings.Lines(content(t, name)) {
		line = strings.TrimSpace(line)
		key, value, isDirective := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
			sections[section] = map[string][]string{}
		case isDirective:
			sections[section][key] = append(sections[section][key], value)
		default:
			t.Errorf("%s: %q is no directive", name, line)
		}
	}
	return sections
}

// The service is let drain, does not start again with a wrong configuration, and may
// do what a proxy needs, and no more.
func TestService(t *testing.T) {
	t.Parallel()
	s := unit(t, "deploy/systemd/sluice.service")["Service"]
	one := func(key string) string {
		t.Helper()
		if len(s[key]) != 1 {
			t.Errorf("%s stands there %d times", key, len(s[key]))
			return ""
		}
		return s[key][0]
	}
	if grace, err := time.ParseDuration(one("TimeoutStopSec")); err != nil || grace <= drainTimeout(t) {
		t.Errorf("killed after %v (%v); it drains for %v", grace, err, drainTimeout(t))
	}
	for key, want := range map[string]string{
		"Type": "exec", "RestartPreventExitStatus": "2", "DynamicUser": "yes", "NoNewPrivileges": "yes",
		"CapabilityBoundingSet": "", "AmbientCapabilities": "", "ProtectSystem": "strict", "ProtectHome": "yes",
		"PrivateDevices": "yes", "PrivateTmp": "yes", "PrivateUsers": "yes", "MemoryDenyWriteExecute": "yes",
		"RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX", "RestrictNamespaces": "yes", "SystemCallArchitectures": "native",
	} {
		if got := one(key); got != want {
			t.Errorf("%s=%s, want %s", key, got, want)
		}
	}
	if got := strings.Join(s["SystemCallFilter"], ";"); got != "@system-service;~@privileged @resources" {
		t.Errorf("system calls: %s", got)
	}
	if got := one("ExecStart"); got != "/usr/local/bin/sluice serve --config /etc/sluice/sluice.yaml" {
		t.Errorf("it starts %s", got)
	}
	// The listen queue's length is read there.
	if _, hidden := s["ProcSubset"]; hidden {
		t.Error("ProcSubset hides /proc/sys/net")
	}
}

// drainTimeout is the default of drain.timeout.
func drainTimeout(t *testing.T) time.Duration {
	t.Helper()
	for line := range strings.Lines(content(t, "docs/configuration.md")) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.TrimSpace(cells[1]) == "`drain.timeout`" {
			d, err := time.ParseDuration(strings.Trim(strings.TrimSpace(cells[3]), "`"))
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatal("no drain.timeout in docs/configuration.md")
	return 0
}
