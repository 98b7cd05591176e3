package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Domain is the cluster's domain, in names such as app.namespace.svc.cluster.local. Pods send DNS queries to Address,
// where the caller must run a DNS server.
const Domain = "cluster.local"

// These are the paths of Debian's packages.
const (
	plugins = "/usr/lib/cni"
	runc    = "/usr/sbin/runc"
)

// network makes the node's network interface. Its default route leads to an address without a host, because the kubelet
// requires a default route.
func (c *Cluster) network(ctx context.Context) error {
	for _, command := range []string{
		"ip link set lo up",
		"ip link add node0 type veth peer name outside0",
		"ip addr add " + Address + "/24 dev node0",
		"ip link set node0 up",
		"ip link set outside0 up",
		"ip route add default via 10.99.0.254",
	} {
		words := strings.Fields(command)
		if _, err := run(ctx, "", words[0], words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// AddAddress gives the node a further address, for example that of a service of the cloud.
func (c *Cluster) AddAddress(ctx context.Context, address string) error {
	_, err := run(ctx, "", "ip", "addr", "add", address+"/32", "dev", "node0")
	return err
}

// node starts containerd and the kubelet, and waits until the cluster's node accepts pods.
func (c *Cluster) node(ctx context.Context) error {
	if err := c.start("containerd", "--config", c.path("containerd.toml")); err != nil {
		return err
	}
	err := c.wait(ctx, "containerd", func() error { _, err := c.ctr(ctx, "version"); return err })
	if err != nil {
		return err
	}
	err = c.start("kubelet", "--config="+c.path("kubelet.yaml"), "--kubeconfig="+c.path("node.kubeconfig"), "--root-dir="+c.path("kubelet"),
		"--cert-dir="+c.path("kubelet-certs"), "--hostname-override="+node, "--node-ip="+Address)
	if err != nil {
		return err
	}
	return c.wait(ctx, "kubelet", func() error {
		out, err := c.Kubectl(ctx, "", "get", "node", node, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && out != "True" {
			err = errors.New("the node is not ready")
		}
		return err
	})
}

// Load imports an image archive (OCI) into the node, under the name in the archive.
func (c *Cluster) Load(ctx context.Context, archive string) error {
	_, err := c.ctr(ctx, "images", "import", archive)
	return err
}

// Tag gives a loaded image a further name.
func (c *Cluster) Tag(ctx context.Context, image, name string) error {
	_, err := c.ctr(ctx, "images", "tag", "--force", image, name)
	return err
}

func (c *Cluster) ctr(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "", filepath.Join(c.bin, "ctr"), append([]string{"-a", c.path("containerd.sock"), "-n", "k8s.io"}, args...)...)
}

// Logs returns the output of containers, in a namespace's pods whose names begin with pod. Each line begins with its
// time. The output of deleted pods is gone.
func (c *Cluster) Logs(namespace, pod, container string) (string, error) {
	files, err := filepath.Glob(c.path("logs/" + namespace + "_" + pod + "*/" + container + "/*.log"))
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}

func kubeletConfig(c *Cluster) string {
	return fmt.Sprintf(`{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
"containerRuntimeEndpoint": "unix://%s", "podLogsDir": %q, "address": "127.0.0.1", "healthzPort": 0, "readOnlyPort": 0,
"authentication": {"webhook": {"enabled": true}, "anonymous": {"enabled": false}}, "authorization": {"mode": "Webhook"},
"cgroupDriver": "cgroupfs", "failCgroupV1": false, "enforceNodeAllocatable": [], "failSwapOn": false, "oomScoreAdj": 0,
"makeIPTablesUtilChains": false, "seccompDefault": true, "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%%", "imagefs.available": "1%%"},
"cgroupRoot": "/%s", "resolvConf": "", "clusterDNS": [%q], "clusterDomain": %q, "maxPods": 60}`,
		c.path("containerd.sock"), c.path("logs"), ownGroup, Address, Domain)
}

func containerdConfig(c *Cluster) string {
	return fmt.Sprintf(`version = 3
root = %q
state = %q
[grpc]
  address = %q
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = %q
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [%q]
    conf_dir = %q
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = %q
        SystemdCgroup = false
`, c.path("containerd"), c.path("containerd-state"), c.path("containerd.sock"), imageOfPods, plugins, c.path("cni"), runc)
}
