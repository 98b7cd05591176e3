package charts

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/client-go/rest"
)

const host = "sluice-injector." + namespace + ".svc"

const byHelm = `{injector: {enabled: true, certificates: {days: 100}}}`

// hook is the one webhook of a configuration.
func hook(t *testing.T, configuration object) any {
	t.Helper()
	if n := len(list(configuration, "webhooks")); n != 1 {
		t.Fatalf("%s: %d webhooks", configuration.name(), n)
	}
	return at(configuration, "webhooks", 0)
}

// The chart registers what deploy/kubernetes/inject/webhook.yaml registers.
func TestWebhookIsTheManifests(t *testing.T) {
	r := mustRender(t, release{}, byHelm)
	configuration := r.one(t, "MutatingWebhookConfiguration inject.sluice.dev")
	copied := manifest(t, "inject/webhook.yaml", "MutatingWebhookConfiguration")
	if got, want := at(configuration, "metadata", "name"), at(copied, "metadata", "name"); got != want {
		t.Errorf("name %v, want %v", got, want)
	}
	got, want := hook(t, configuration).(map[string]any), hook(t, copied).(map[string]any)
	service := at(got, "clientConfig", "service").(map[string]any)
	if !reflect.DeepEqual(service, map[string]any{"name": "sluice-injector", "namespace": namespace, "path": "/mutate", "port": 443.0}) {
		t.Errorf("service %v", service)
	}
	if port := at(r.one(t, "Service sluice-injector"), "spec", "ports", 0, "port"); port != service["port"] {
		t.Errorf("the Service has port %v", port)
	}
	delete(got, "clientConfig")
	delete(want, "clientConfig")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	for _, field := range []string{"failurePolicy", "reinvocationPolicy", "namespaceSelector", "objectSelector", "rules", "name", "timeoutSeconds"} {
		if want[field] == nil {
			t.Errorf("the manifest has no %s", field)
		}
	}
}

// The pods of the injector are those of the manifest, too: what is not a name is the same.
func TestInjectorRunsAsTheManifests(t *testing.T) {
	chart := at(mustRender(t, release{}, byHelm).one(t, "Deployment sluice-injector"), "spec")
	copied := at(manifest(t, "inject/webhook.yaml", "Deployment"), "spec")
	pod := []any{"template", "spec", "containers", 0}
	for _, path := range [][]any{
		{"replicas"}, {"strategy", "rollingUpdate", "maxUnavailable"},
		append(pod, "readinessProbe"), append(pod, "livenessProbe"), append(pod, "resources"), append(pod, "ports"), append(pod, "volumeMounts"),
	} {
		if got, want := at(chart, path...), at(copied, path...); want == nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got %v, want %v", path, got, want)
		}
	}
}

func TestAlertsAreTheManifests(t *testing.T) {
	got := mustRender(t, release{}, `{metrics: {prometheusRule: {enabled: true}}}`).one(t, "PrometheusRule sluice")["spec"]
	want := manifest(t, "prometheusrule.yaml", "PrometheusRule")["spec"]
	if n := len(list(want, "groups", 0, "rules")); n < 6 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d alerts; deploy/helm/sluice/alerts.yaml is to be the spec of prometheusrule.yaml: got\n%v\nwant\n%v", n, got, want)
	}
}

// authorities are the data of the injector's Secret, once they are known to be of use: the
// API server trusts the certificate for the Service's name, and the injector has its key.
func authorities(t *testing.T, r rendering) map[string]any {
	t.Helper()
	data, _ := r.one(t, "Secret sluice-injector-tls")["data"].(map[string]any)
	pem := map[string][]byte{}
	for name, text := range data {
		decoded, err := base64.StdEncoding.DecodeString(fmt.Sprint(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		pem[name] = decoded
	}
	if bundle := at(hook(t, r.one(t, "MutatingWebhookConfiguration inject.sluice.dev")), "clientConfig", "caBundle"); bundle != data["ca.crt"] {
		t.Errorf("the webhook has the bundle %v, the Secret %v", bundle, data["ca.crt"])
	}
	pair, err := tls.X509KeyPair(pem["tls.crt"], pem["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem["ca.crt"]) {
		t.Fatal("ca.crt has no certificate")
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
		t.Error(err)
	}
	if left := time.Until(pair.Leaf.NotAfter); left < 99*24*time.Hour || left > 101*24*time.Hour {
		t.Errorf("the certificate ends in %v", left)
	}
	return data
}

// secretPath is where an API server has the injector's Secret.
const secretPath = "/api/v1/namespaces/" + namespace + "/secrets/sluice-injector-tls"

// cluster is an API server that has Secrets, and nothing else.
func cluster(t *testing.T, secrets map[string]object) engine.Engine {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any
		secret, there := secrets[r.URL.Path]
		switch {
		case r.URL.Path == "/api/v1":
			answer = map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": []any{
				map[string]any{"name": "secrets", "singularName": "secret", "namespaced": true, "kind": "Secret", "verbs": []any{"get"}}}}
		case there:
			answer = secret
		default:
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound}
		}
		_ = json.NewEncoder(w).Encode(answer) // Helm would say that it could not read it
	}))
	t.Cleanup(server.Close)
	return engine.New(&rest.Config{Host: server.URL})
}

// An upgrade keeps the certificate that is there: with another one pods would be refused
// until all replicas have it.
func TestUpgradeKeepsTheCertificate(t *testing.T) {
	installed := mustRender(t, release{engine: cluster(t, nil)}, byHelm)
	first := authorities(t, installed)
	secret := installed.one(t, "Secret sluice-injector-tls")
	upgraded := mustRender(t, release{engine: cluster(t, map[string]object{secretPath: secret})}, byHelm)
	if again := authorities(t, upgraded); !reflect.DeepEqual(again, first) {
		t.Error("an upgrade makes another certificate")
	}
	if other := authorities(t, mustRender(t, release{engine: cluster(t, map[string]object{secretPath + "2": secret})}, byHelm)); other["ca.crt"] == first["ca.crt"] {
		t.Error("what is kept does not come from the Secret")
	}
	half := object{"apiVersion": "v1", "kind": "Secret", "metadata": secret["metadata"], "data": map[string]any{"tls.crt": first["tls.crt"], "tls.key": first["tls.key"]}}
	if mended := authorities(t, mustRender(t, release{engine: cluster(t, map[string]object{secretPath: half})}, byHelm)); mended["tls.crt"] == first["tls.crt"] {
		t.Error("a Secret without its authority is kept")
	}
}

// With cert-manager the injector mounts what the certificate is written to, and the webhook
// trusts who signs it.
func TestCertManagerSignsForTheService(t *testing.T) {
	r := mustRender(t, release{}, `{injector: {enabled: true, certificates: {mode: cert-manager, days: 10}}}`)
	certificate := r.one(t, "Certificate sluice-injector")
	if names := list(certificate, "spec", "dnsNames"); len(names) != 1 || names[0] != host {
		t.Errorf("the certificate is for %v", names)
	}
	if got := mountedSecret(t, r); got != at(certificate, "spec", "secretName") {
		t.Errorf("Secret %v is mounted", got)
	}
	issuer := r.one(t, fmt.Sprint("Issuer ", at(certificate, "spec", "issuerRef", "name")))
	authority := r.one(t, "Certificate sluice-injector-ca")
	if at(issuer, "spec", "ca", "secretName") != at(authority, "spec", "secretName") || at(authority, "spec", "isCA") != true || at(authority, "spec", "duration") != "240h" {
		t.Errorf("%v signs, %v is the authority", issuer["spec"], authority["spec"])
	}
	if root := r.one(t, fmt.Sprint("Issuer ", at(authority, "spec", "issuerRef", "name"))); at(root, "spec", "selfSigned") == nil {
		t.Errorf("the authority is signed by %v", root["spec"])
	}
	configuration := r.one(t, "MutatingWebhookConfiguration inject.sluice.dev")
	if got := at(configuration, "metadata", "annotations", "cert-manager.io/inject-ca-from"); got != namespace+"/sluice-injector" {
		t.Errorf("the bundle comes from %v", got)
	}
	if at(hook(t, configuration), "clientConfig", "caBundle") != nil {
		t.Error("a bundle is given")
	}
}

func TestOwnSecretIsMounted(t *testing.T) {
	r := mustRender(t, release{}, `{injector: {enabled: true, certificates: {mode: secret, secret: mine, caBundle: QQ==}}}`)
	bundle := at(hook(t, r.one(t, "MutatingWebhookConfiguration inject.sluice.dev")), "clientConfig", "caBundle")
	if got := mountedSecret(t, r); got != "mine" || bundle != "QQ==" {
		t.Errorf("Secret %v, bundle %v", got, bundle)
	}
}

func mountedSecret(t *testing.T, r rendering) any {
	t.Helper()
	return at(r.one(t, "Deployment sluice-injector"), "spec", "template", "spec", "volumes", 0, "secret", "secretName")
}
