// Package cluster runs a Kubernetes of one node: etcd, the API server, the controllers, the scheduler, the kubelet and
// containerd. Each is a separate process, and all share a separate network.
//
// Package cluster expects to run in namespaces (network, mount, process) that it may fill and that vanish at its end.
// None of its processes or mounts remains. A few sysctls and the directories of cgroups are in no namespace. Package
// cluster restores them, and reports any difference that remains.
//
// There is no kube-proxy, and no DNS server except one that the caller starts. Pods reach each other, the node and
// programs on the node by address. The API server reaches Services by their endpoints. NetworkPolicies are accepted and
// not enforced.
package cluster
