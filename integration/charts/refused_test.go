package charts

import (
	"strings"
	"testing"
)

// A value that the chart cannot use is refused, by name.
func TestWrongValuesAreRefused(t *testing.T) {
	for _, test := range []struct{ values, want string }{
		// By values.schema.json.
		{`{injektor: {enabled: true}}`, "'injektor' not allowed"},
		{`{config: {backend.endpont: x}}`, "'backend.endpont' not allowed"},
		{`{config: {backend.port: "5432"}}`, "at '/config/backend.port': got string, want integer"},
		{`{config: {retry.jitter_factor: a lot}}`, "at '/config/retry.jitter_factor': got string, want number"},
		{`{config: {tls.required: "yes"}}`, "at '/config/tls.required': got string, want boolean"},
		{`{config: {rewrite.chunked_delete: history}}`, "at '/config/rewrite.chunked_delete': got string, want array"},
		{`{config: {auth.method: md5}}`, "at '/config/auth.method': value must be one of"},
		{`{image: {tag: 1.0}}`, "at '/image/tag': got number, want string"},
		{`{image: {digest: "sha256:12"}}`, "at '/image/digest': 'sha256:12' does not match"},
		{`{image: {pullPolicy: never}}`, "at '/image/pullPolicy': value must be one of"},
		{`{standalone: {replicas: 0}}`, "at '/standalone/replicas': minimum: got 0, want 1"},
		{`{standalone: {port: 70000}}`, "at '/standalone/port': maximum"},
		{`{standalone: {terminationGracePeriodSeconds: 5}}`, "at '/standalone/terminationGracePeriodSeconds': minimum"},
		{`{standalone: {memoryLimit: 410Mi}}`, "at '/standalone/memoryLimit': '410Mi' does not match"},
		{`{standalone: {podLabels: {a: 1}}}`, "at '/standalone/podLabels/a': got number, want string"},
		{`{injector: {certificates: {mode: none}}}`, "at '/injector/certificates/mode': value must be one of"},
		{`{injector: {memoryLimit: much}}`, "at '/injector/memoryLimit'"},
		{`{injector: {timeoutSeconds: 31}}`, "at '/injector/timeoutSeconds': maximum"},
		{`{lease: {tabel: x}}`, "'tabel' not allowed"},
		{`{metrics: {podMonitor: {intervall: 1s}}}`, "'intervall' not allowed"},
		// By the templates.
		{`{standalone: {enabled: true, usersSecret: u, resources: {limits: {memory: 512mi}}}, config: {backend.endpoint: x}}`, "standalone.memoryLimit: give it, since resources.limits.memory is 512mi"},
		{`{standalone: {enabled: true, usersSecret: u}}`, "config: give backend.endpoint"},
		{`{standalone: {enabled: true}, config: {backend.endpoint: x}}`, "standalone.usersSecret: name the Secret"},
		{`{standalone: {enabled: true, usersSecret: u}, config: {backend.endpoint: x}, lease: {enabled: true}}`, "lease.table: name the DynamoDB table"},
		{`{injector: {enabled: true}, lease: {enabled: true}}`, "lease.table: name the DynamoDB table"},
		{`{injector: {enabled: true, certificates: {mode: secret, caBundle: QQ==}}}`, "injector.certificates.secret: name a Secret"},
		{`{injector: {enabled: true, certificates: {mode: secret, secret: s}}}`, "injector.certificates.caBundle: give the authority"},
		{`{injector: {enabled: true}, config: {backend.ca_file: /ca.crt}}`, "config.backend.ca_file: injected containers have no files"},
		{`{injector: {enabled: true}, config: {drain.mode: plain}}`, "config.drain.mode: injected containers"},
	} {
		_, err := release{}.render(loadChart(t), test.values)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.values, err, test.want)
		}
	}
}

func TestOldClusterIsRefused(t *testing.T) {
	if _, err := (release{kubeVersion: "1.28.9"}).render(loadChart(t), "{}"); err == nil || !strings.Contains(err.Error(), ">=1.29.0-0") {
		t.Errorf("got %v", err)
	}
	mustRender(t, release{kubeVersion: "v1.30.2-eks-1234"}, "{}") // as EKS calls itself
}
