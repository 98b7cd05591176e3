// Package cloud holds the CloudFormation templates of deploy to what Sluice does, and
// to the policies beside them.
package cloud

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-proxy/sluice/integration/dynalite"
	"github.com/sluice-proxy/sluice/integration/harness"
)

const table = "sluice-leases"

// calls are what a program asked of DynamoDB, by operation.
type calls struct {
	mu  sync.Mutex
	was map[string]map[string]any
}

func (c *calls) of(t *testing.T, operation string) map[string]any {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	call, ok := c.was[operation]
	if !ok {
		t.Fatalf("%s was not called", operation)
	}
	return call
}

// leaseInit runs the command against a DynamoDB that notes what it is asked for.
func leaseInit(t *testing.T) *calls {
	t.Helper()
	server := dynalite.Start(t)
	target, err := url.Parse(server.Env()["AWS_ENDPOINT_URL_DYNAMODB"])
	if err != nil || target.Host == "" {
		t.Fatalf("no endpoint in %v (%v)", server.Env(), err)
	}
	c := &calls{was: map[string]map[string]any{}}
	forward := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var call map[string]any
		if err == nil {
			err = json.Unmarshal(body, &call)
		}
		if err != nil {
			t.Errorf("a call of DynamoDB: %v", err)
		}
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		c.mu.Lock()
		c.was[operation] = call
		c.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	cmd := exec.CommandContext(t.Context(), filepath.Join(string(harness.Binaries(t)), "sluice"), "lease", "init",
		"--endpoint", "abcdefghijklmnopqrstuvwxyz.dsql.us-east-1.on.aws", "--distributed-conn-lease-table", table)
	for name, value := range server.Env() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "AWS_ENDPOINT_URL_DYNAMODB="+front.URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sluice lease init: %v\n%s", err, out)
	}
	return c
}

// The table of the template is the one that lease init makes: each property has its
// part in a call, and each part of a call its property.
func TestTableIsTheOneThatInitMakes(t *testing.T) {
	t.Parallel()
	made := leaseInit(t)
	s := read(t, "lease-table.yaml", map[string]string{"TableName": table})
	want := made.of(t, "CreateTable")
	life := made.of(t, "UpdateTimeToLive")
	if life["TableName"] != table {
		t.Errorf("items of %v expire, not of %s", life["TableName"], table)
	}
	want["TimeToLiveSpecification"] = life["TimeToLiveSpecification"]
	got := s.properties("LeaseTable")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the template makes\n%v\nsluice lease init makes\n%v", got, want)
	}
	r := s.resource("LeaseTable")
	if r["DeletionPolicy"] != "Retain" || r["UpdateReplacePolicy"] != "Retain" {
		t.Errorf("a stack that goes takes the table with it: %v", r)
	}
}

var cluster = map[string]string{"ClusterId": "CLUSTER", "TableName": "TABLE"}

// access is that template with further parameters.
func access(t *testing.T, more map[string]string) *stack {
	t.Helper()
	given := map[string]string{}
	for _, from := range []map[string]string{cluster, more} {
		for name, value := range from {
			given[name] = value
		}
	}
	return read(t, "access.yaml", given)
}

// policies are the resources by the file of deploy/iam that they repeat.
var policies = map[string]string{
	"connect-admin.json":  "ConnectAdminPolicy",
	"connect.json":        "ConnectPolicy",
	"lease-sidecar.json":  "LeaseSidecarPolicy",
	"lease-operator.json": "LeaseOperatorPolicy",
}

func TestPoliciesAreThoseOfDeployIAM(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../deploy/iam/*.json")
	if err != nil || len(files) != len(policies) {
		t.Fatalf("%v (%v): not one file for each of %v", files, err, policies)
	}
	var seen []string
	for _, as := range []string{"admin", "role"} {
		s := access(t, map[string]string{"ConnectAs": as})
		for _, file := range files {
			name := policies[filepath.Base(file)]
			if s.resource(name) == nil {
				continue
			}
			seen = append(seen, name)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want any
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if got := s.properties(name)["PolicyDocument"]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the template says\n%v\nthe file\n%v", name, got, want)
			}
		}
		for _, name := range s.made("AWS::IAM::ManagedPolicy") {
			if !slices.Contains(seen, name) {
				t.Errorf("%s repeats no file of deploy/iam", name)
			}
		}
	}
	slices.Sort(seen)
	if want := []string{"ConnectAdminPolicy", "ConnectPolicy", "LeaseOperatorPolicy", "LeaseOperatorPolicy", "LeaseSidecarPolicy", "LeaseSidecarPolicy"}; !slices.Equal(seen, want) {
		t.Errorf("compared %v, want %v", seen, want)
	}
}

// A sidecar may connect in one way and share limits; an operator may look after the
// table. Neither has policies written into the role.
func TestRolesHaveTheirPoliciesOnly(t *testing.T) {
	t.Parallel()
	for as, connect := range map[string]string{"admin": "ConnectAdminPolicy", "role": "ConnectPolicy"} {
		s := access(t, map[string]string{"ConnectAs": as, "OperatorArn": "arn:aws:iam::ACCOUNT:user/ops"})
		for role, want := range map[string][]any{
			"SidecarRole":  {connect, "LeaseSidecarPolicy"},
			"OperatorRole": {"LeaseOperatorPolicy"},
		} {
			p := s.properties(role)
			if got := p["ManagedPolicyArns"]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s, as %s, has %v, want %v", role, as, got, want)
			}
			if len(p) != 2 {
				t.Errorf("%s has more than who may be it and its policies: %v", role, p)
			}
		}
	}
	if s := access(t, nil); s.resource("OperatorRole") != nil {
		t.Error("an operator's role that nobody asked for")
	}
}

// Who may become the sidecar, for each way to run one.
func TestWhoBecomesTheSidecar(t *testing.T) {
	t.Parallel()
	service := func(name string, actions ...any) any {
		return map[string]any{"Effect": "Allow", "Principal": map[string]any{"Service": name}, "Action": actions}
	}
	for by, want := range map[string]any{
		"pod-identity": service("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"),
		"instance":     service("ec2.amazonaws.com", "sts:AssumeRole"),
		"task":         service("ecs-tasks.amazonaws.com", "sts:AssumeRole"),
		"web-identity": map[string]any{
			"Effect":    "Allow",
			"Principal": map[string]any{"Federated": "arn:aws:iam::ACCOUNT:oidc-provider/oidc.eks.REGION.amazonaws.com/id/ID"},
			"Action":    "sts:AssumeRoleWithWebIdentity",
			"Condition": map[string]any{"StringEquals": map[string]any{
				"oidc.eks.REGION.amazonaws.com/id/ID:aud": "sts.amazonaws.com",
				"oidc.eks.REGION.amazonaws.com/id/ID:sub": "system:serviceaccount:orders:app",
			}},
		},
	} {
		s := access(t, map[string]string{"TrustedBy": by, "OidcProvider": "oidc.eks.REGION.amazonaws.com/id/ID", "ServiceAccount": "orders:app"})
		trust := s.properties("SidecarRole")["AssumeRolePolicyDocument"]
		if text, ok := trust.(string); ok {
			if err := json.Unmarshal([]byte(text), &trust); err != nil {
				t.Fatalf("%s: %v", by, err)
			}
		}
		if whole := map[string]any{"Version": "2012-10-17", "Statement": []any{want}}; !reflect.DeepEqual(trust, whole) {
			t.Errorf("%s: %v, want %v", by, trust, whole)
		}
		if profile := s.resource("SidecarProfile") != nil; profile != (by == "instance") {
			t.Errorf("%s: an instance profile: %v", by, profile)
		}
	}
}

// Every reference in outputs and rules is to something that exists.
func TestNothingIsLeftOpen(t *testing.T) {
	t.Parallel()
	for _, s := range []*stack{
		read(t, "lease-table.yaml", nil),
		access(t, map[string]string{"OperatorArn": "arn:aws:iam::ACCOUNT:user/ops", "TrustedBy": "instance"}),
	} {
		for _, part := range []string{"Resources", "Outputs", "Conditions", "Rules"} {
			if body, ok := s.root[part].(map[string]any); ok {
				for name, p := range body {
					if s.resource(name) != nil || part != "Resources" {
						s.resolve(p)
					}
				}
			}
		}
		for name, out := range s.root["Outputs"].(map[string]any) {
			if f, ok := out.(map[string]any)["Value"].(fn); ok && f.name == "GetAtt" {
				if resource, _, _ := strings.Cut(f.arg.(string), "."); s.resource(resource) == nil {
					t.Errorf("output %s is of %s, which does not exist", name, resource)
				}
			}
		}
	}
}
