package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-proxy/sluice/integration/certs"
	"github.com/sluice-proxy/sluice/integration/child"
)

// Address is the node's address, at which pods reach programs on the node.
const Address = "10.99.0.1"

const (
	node        = "node1"
	token       = "admin"
	nodeToken   = "node"
	apiPort     = "6443"
	startLimit  = 2 * time.Minute
	stopGrace   = 10 * time.Second
	pollEvery   = 100 * time.Millisecond
	tailOfALog  = 4000
	imageOfPods = "localhost/pause:dev"
)

// Cluster is a running cluster. Dir has its programs' logs and all its state.
type Cluster struct {
	Dir        string
	Kubeconfig string

	bin      string
	host     *host
	programs []program // in the order of their starts
}

type program struct {
	name string
	*child.Process
}

// Start runs a cluster from the programs in the directory bin, and waits until its node is ready. The caller ends the
// cluster with Stop, after an error too.
func Start(ctx context.Context, bin, dir string) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c := &Cluster{Dir: dir, bin: bin, Kubeconfig: filepath.Join(dir, "admin.kubeconfig")}
	var err error
	if c.host, err = newHost(); err != nil {
		return c, err
	}
	for _, step := range []func(context.Context) error{c.network, c.writeFiles, c.control, c.node} {
		if err := step(ctx); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Stop ends the cluster's programs, the last one first, and restores the machine's settings (sysctls, cgroups). It
// returns an error if it could not restore some setting.
func (c *Cluster) Stop() error {
	for i := len(c.programs) - 1; i >= 0; i-- {
		c.programs[i].Stop(syscall.SIGTERM, stopGrace)
	}
	if c.host == nil {
		return nil
	}
	return c.host.restore()
}

// start runs a program; the program's output goes to a file of the same name in Dir.
func (c *Cluster) start(name string, args ...string) error {
	log, err := os.Create(c.log(name))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), "PATH="+c.bin+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	c.programs = append(c.programs, program{name, process})
	return nil
}

func (c *Cluster) log(name string) string { return filepath.Join(c.Dir, name+".log") }

// wait calls done until its result is nil. An error contains the end of the program's log.
func (c *Cluster) wait(ctx context.Context, name string, done func() error) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
			if !c.ended(name) {
				continue
			}
		}
		text, _ := os.ReadFile(c.log(name))
		return fmt.Errorf("%s: %w\n%s", name, err, text[max(0, len(text)-tailOfALog):])
	}
}

func (c *Cluster) ended(name string) bool {
	for _, p := range c.programs {
		if p.name == name {
			select {
			case <-p.Exited():
				return true
			default:
			}
		}
	}
	return false
}

// writeFiles writes the certificates, the tokens and the configuration files that name them.
func (c *Cluster) writeFiles(context.Context) error {
	ca := certs.SelfSigned("kubernetes")
	server := certs.SignedBy(ca, "kube-apiserver", "localhost", "127.0.0.1", Address, "kubernetes.default.svc")
	account := certs.SelfSigned("service-accounts")
	var errs []error
	for name, pair := range map[string]tls.Certificate{"ca": ca, "apiserver": server, "accounts": account} {
		errs = append(errs, certs.Write(pair, c.path(name+".crt"), c.path(name+".key")))
	}
	kubeconfig := func(token string) string {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:%s", "certificate-authority": %q}}],
"users": [{"name": "u", "user": {"token": %q}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`, apiPort, c.path("ca.crt"), token)
	}
	for name, text := range map[string]string{
		"tokens":           fmt.Sprintf("%s,admin,1,system:masters\n%s,system:node:%s,2,system:nodes\n", token, nodeToken, node),
		"admin.kubeconfig": kubeconfig(token),
		"node.kubeconfig":  kubeconfig(nodeToken),
		"kubelet.yaml":     kubeletConfig(c),
		"containerd.toml":  containerdConfig(c),
		"cni/bridge.conflist": `{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods0", "isGateway": true,
"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.98.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "` + c.path("ipam") + `"}}]}`,
	} {
		errs = append(errs, os.MkdirAll(filepath.Dir(c.path(name)), 0o700), os.WriteFile(c.path(name), []byte(text), 0o600))
	}
	return errors.Join(errs...)
}

func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

// control starts the programs of the control plane: etcd, the API server, the controllers, the scheduler.
func (c *Cluster) control(ctx context.Context) error {
	etcd, peers := "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	err := c.start("etcd", "--name", "e", "--data-dir", c.path("etcd"), "--unsafe-no-fsync", "--listen-client-urls", etcd,
		"--advertise-client-urls", etcd, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "e="+peers)
	if err != nil {
		return err
	}
	err = c.start("kube-apiserver", "--etcd-servers="+etcd, "--bind-address=127.0.0.1", "--advertise-address="+Address, "--secure-port="+apiPort,
		"--tls-cert-file="+c.path("apiserver.crt"), "--tls-private-key-file="+c.path("apiserver.key"), "--client-ca-file="+c.path("ca.crt"),
		"--token-auth-file="+c.path("tokens"), "--authorization-mode=Node,RBAC", "--cert-dir="+c.path("apiserver"),
		"--service-account-key-file="+c.path("accounts.crt"), "--service-account-signing-key-file="+c.path("accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.97.0.0/24",
		"--allow-privileged=true", "--endpoint-reconciler-type=none",
		// The API server calls webhooks at the addresses of a Service's pods, since there is no kube-proxy.
		"--enable-aggregator-routing=true")
	if err != nil {
		return err
	}
	if err := c.wait(ctx, "kube-apiserver", func() error { _, err := c.Kubectl(ctx, "", "get", "--raw", "/readyz"); return err }); err != nil {
		return err
	}
	return errors.Join(
		c.start("kube-controller-manager", "--kubeconfig="+c.Kubeconfig, "--bind-address=127.0.0.1", "--secure-port=10257", "--leader-elect=false",
			"--service-account-private-key-file="+c.path("accounts.key"), "--root-ca-file="+c.path("ca.crt"), "--use-service-account-credentials=false"),
		c.start("kube-scheduler", "--kubeconfig="+c.Kubeconfig, "--bind-address=127.0.0.1", "--secure-port=10259", "--leader-elect=false"))
}

// Kubectl runs kubectl with a standard input and returns its output, without the last newline. Its error contains
// kubectl's error output.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return run(ctx, stdin, filepath.Join(c.bin, "kubectl"), append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
}

func run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// Run runs another of the cluster's programs, such as helm.
func (c *Cluster) Run(ctx context.Context, name string, args ...string) (string, error) {
	return run(ctx, "", filepath.Join(c.bin, name), args...)
}

// Background starts a further program. The function stop ends that program.
func (c *Cluster) Background(name string, args ...string) (stop func(), err error) {
	if err := c.start(name, args...); err != nil {
		return nil, err
	}
	p := c.programs[len(c.programs)-1]
	return func() { p.Stop(syscall.SIGTERM, stopGrace) }, nil
}
