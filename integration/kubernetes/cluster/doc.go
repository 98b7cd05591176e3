// Package cluster runs a Kubernetes of one node: etcd, the API server, the controllers,
// the scheduler, the kubelet and containerd, each a process of its own, on a network of
// their own.
//
// It expects to be in namespaces (network, mount, process) that it may fill and that
// vanish with it: nothing that it starts or mounts is left. What a namespace does not
// hold, a few sysctls and the directories of cgroups, it puts back as it was, and says
// what is different.
//
// There is no kube-proxy, and no DNS but what the caller has listen for it: pods reach each other, the node and what listens
// there by address; the API server reaches Services by their endpoints. NetworkPolicies
// are accepted and not enforced.
package cluster
