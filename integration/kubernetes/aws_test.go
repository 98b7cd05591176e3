package kubernetes

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/integration/certs"
)

// A made-up key, of the form that a role's session has.
const (
	accessKey    = "ASIAMADEUPMADEUPMADE"
	secretKey    = "made-up-secret-key"
	sessionToken = "made-up-session-token"
	// agentAddress is where EKS has its agent on each node.
	agentAddress = "169.254.170.23"
	audience     = "pods.eks.amazonaws.com"
)

// aws is what EKS adds to a cluster: the webhook that puts variables and a token into all
// containers of a pod, and the agent that gives keys for the token.
type aws struct {
	ca      []byte // PEM, of the webhook
	webhook *http.Server
	agent   *http.Server
	port    int
	// dynamodb is where the lease table is, as pods are told; forward leads there.
	dynamodb string
	forward  net.Listener

	asked atomic.Int64 // of the agent, with a token that is good
}

// startAWS starts them, and a way for pods to DynamoDB, which listens on the loopback.
func startAWS(ctx context.Context, dynamodb string) (*aws, error) {
	a := &aws{}
	forward, err := relay(strings.TrimPrefix(dynamodb, "http://"))
	if err != nil {
		return nil, err
	}
	a.forward, a.dynamodb = forward, "http://"+forward.Addr().String()
	pair := certs.SelfSigned("webhooks", "127.0.0.1")
	if a.ca, err = pemOf(pair); err != nil {
		return nil, err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		return nil, err
	}
	a.port = listener.Addr().(*net.TCPAddr).Port
	if err := world.AddAddress(ctx, agentAddress); err != nil {
		return nil, err
	}
	agent, err := net.Listen("tcp", agentAddress+":80")
	if err != nil {
		return nil, err
	}
	a.webhook = &http.Server{Handler: http.HandlerFunc(a.review)}
	a.agent = &http.Server{Handler: http.HandlerFunc(a.credentials)}
	go a.webhook.Serve(listener)
	go a.agent.Serve(agent)
	return a, nil
}

func pemOf(pair tls.Certificate) ([]byte, error) {
	dir, err := os.MkdirTemp("", "pem-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := certs.Write(pair, dir+"/c", dir+"/k"); err != nil {
		return nil, err
	}
	return os.ReadFile(dir + "/c")
}

func (a *aws) stop() { _, _, _ = a.webhook.Close(), a.agent.Close(), a.forward.Close() }

// relay listens on the node's address and leads to a listener of its loopback.
func relay(to string) (net.Listener, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(nodeAddress, "0"))
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer server.Close()
				go func() {
					_, _ = io.Copy(server, from)
					_ = server.(*net.TCPConn).CloseWrite()
				}()
				_, _ = io.Copy(from, server)
			}()
		}
	}()
	return listener, nil
}

// credentials are for who shows a service account's token of the agent's audience.
func (a *aws) credentials(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.Header.Get("Authorization"), ".")
	var claims struct{ Aud []string }
	err := errors.New("no token")
	if len(parts) == 3 {
		var text []byte
		if text, err = base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			err = json.Unmarshal(text, &claims)
		}
	}
	if err != nil || len(claims.Aud) != 1 || claims.Aud[0] != audience {
		http.Error(w, fmt.Sprint(err, claims.Aud), http.StatusForbidden)
		return
	}
	a.asked.Add(1)
	_ = json.NewEncoder(w).Encode(map[string]any{"AccessKeyId": accessKey, "SecretAccessKey": secretKey, "Token": sessionToken,
		"Expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
}

// container is what a webhook has to know of one.
type container struct {
	Name         string
	Env          []struct{ Name string }
	VolumeMounts []struct{ Name string }
}

// pod likewise.
type pod struct {
	Metadata struct{ Annotations map[string]string }
	Spec     struct {
		InitContainers, Containers []container
		Volumes                    []struct{ Name string }
	}
}

// change adds to a JSONPatch.
type change struct{ patch []map[string]any }

func (c *change) add(path string, value any) {
	c.patch = append(c.patch, map[string]any{"op": "add", "path": path, "value": value})
}

// volume gives every container a volume, at a path, and variables.
func (c *change) volume(p pod, volume map[string]any, path string, variables map[string]string) {
	name := volume["name"].(string)
	for _, v := range p.Spec.Volumes {
		if v.Name == name {
			volume = nil
		}
	}
	if volume != nil {
		if p.Spec.Volumes == nil {
			c.add("/spec/volumes", []any{})
		}
		c.add("/spec/volumes/-", volume)
	}
	for i, each := range p.Spec.InitContainers {
		c.mount(each, fmt.Sprintf("/spec/initContainers/%d", i), name, path, variables)
	}
	for i, each := range p.Spec.Containers {
		c.mount(each, fmt.Sprintf("/spec/containers/%d", i), name, path, variables)
	}
}

func (c *change) mount(into container, at, name, path string, variables map[string]string) {
	mounted, there := false, make(map[string]bool)
	for _, m := range into.VolumeMounts {
		mounted = mounted || m.Name == name
	}
	if !mounted {
		if into.VolumeMounts == nil {
			c.add(at+"/volumeMounts", []any{})
		}
		c.add(at+"/volumeMounts/-", map[string]any{"name": name, "mountPath": path, "readOnly": true})
	}
	for _, v := range into.Env {
		there[v.Name] = true
	}
	if into.Env == nil {
		c.add(at+"/env", []any{})
	}
	for name, value := range variables {
		if !there[name] {
			c.add(at+"/env/-", map[string]any{"name": name, "value": value})
		}
	}
}

// review is the webhooks of others: /pod-identity does what AWS' does, /trust gives pods the
// authority of the stand-in's certificate (of Aurora's every image has it), /first and /last
// leave a trace, /port adds a container that wants Sluice's port.
func (a *aws) review(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	var in struct {
		Request struct {
			UID    string `json:"uid"`
			Object pod    `json:"object"`
		} `json:"request"`
	}
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p := in.Request.Object
	var c change
	switch r.URL.Path {
	case "/pod-identity":
		token := map[string]any{"serviceAccountToken": map[string]any{"audience": audience, "expirationSeconds": 86400, "path": "token"}}
		c.volume(p, map[string]any{"name": "eks-pod-identity-token", "projected": map[string]any{"sources": []any{token}}}, "/var/run/secrets/eks", map[string]string{
			"AWS_CONTAINER_CREDENTIALS_FULL_URI":     "http://" + agentAddress + "/v1/credentials",
			"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/var/run/secrets/eks/token",
			"AWS_ENDPOINT_URL_DYNAMODB":              a.dynamodb,
		})
	case "/trust":
		c.volume(p, map[string]any{"name": "trust", "configMap": map[string]any{"name": "trust"}}, "/etc/trust", map[string]string{"SSL_CERT_FILE": "/etc/trust/ca.pem"})
	case "/first", "/last":
		if p.Metadata.Annotations == nil {
			c.add("/metadata/annotations", map[string]any{})
		}
		names := make([]string, 0, len(p.Spec.InitContainers))
		for _, each := range p.Spec.InitContainers {
			names = append(names, each.Name)
		}
		c.add("/metadata/annotations/example.com~1"+r.URL.Path[1:], "saw: "+strings.Join(names, " "))
	case "/port":
		if len(p.Spec.Containers) == 1 {
			c.add("/spec/containers/-", map[string]any{"name": "late", "image": "localhost/ledger:dev", "ports": []any{map[string]any{"containerPort": 5432}}})
		}
	}
	response := map[string]any{"uid": in.Request.UID, "allowed": true}
	if len(c.patch) > 0 {
		text, _ := json.Marshal(c.patch)
		response["patchType"], response["patch"] = "JSONPatch", text
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

// configuration is that of a webhook of this server, for namespaces with the label
// test-<path>.
func (a *aws) configuration(name, path string) string {
	return fmt.Sprintf(`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": %q},
"webhooks": [{"name": "w.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "reinvocationPolicy": "IfNeeded",
"clientConfig": {"url": "https://127.0.0.1:%d%s", "caBundle": %q},
"namespaceSelector": {"matchExpressions": [{"key": "test%s", "operator": "Exists"}]},
"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]}`,
		name, a.port, path, base64.StdEncoding.EncodeToString(a.ca), strings.ReplaceAll(path, "/", "-"))
}
