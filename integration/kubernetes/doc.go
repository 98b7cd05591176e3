// Package kubernetes tries Sluice on a Kubernetes of one node: the image as it ships, put
// into pods by the chart's webhook, by the policy and by hand, in front of the stand-in
// for a cluster, which runs on the node, outside of Kubernetes, as Aurora DSQL does.
//
// make e2e-kubernetes builds what it needs and gives it namespaces of its own; it is not
// part of make test, which vets it only. It is a module of its own for that.
//
// # Files
//
//	cluster/            the Kubernetes
//	event/, ledger/     the application of the pods, and who it tells what was acknowledged
//	pause/              what a pod begins with
//	tools/              modules of the cluster's programs
//	world_test.go       what all tests share: the cluster, the stand-in, AWS' part
//	aws_test.go         EKS Pod Identity: its agent and its webhook; webhooks of others
//	names_test.go       DNS for Services
//	kubectl_test.go     objects: made, asked for, waited for
//	order_test.go       Jobs, order of start and end, what an overrun leaves
//	rollout_test.go     the ledger over rollouts, and by the manifests
//	lease_test.go       replicas that share a lease table
//	inject_test.go      webhook and policy
//	chart_test.go       install, upgrade, uninstall
//	standalone_test.go  the chart's shared proxy
//	prometheus_test.go  discovery, and the alerts
//	temporal_test.go    Temporal's four services
package kubernetes
