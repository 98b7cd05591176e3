// Package kubernetes tests Sluice on a Kubernetes cluster of one node. The chart's webhook, the policy and manifests
// put the image, as it ships, into pods. Dsqlsim, the simulated DSQL cluster, runs on the node, outside of
// Kubernetes, as Aurora DSQL does.
//
// make e2e-kubernetes builds the programs of the tests and runs the tests in separate namespaces. make test only vets
// these tests, because package kubernetes is in a separate module.
//
// # Files
//
//	cluster/            the Kubernetes cluster
//	event/, ledger/     the application of the pods, and the collector of its events
//	pause/              the first container of a pod
//	tools/              modules of the cluster's programs
//	world_test.go       the common part of all tests: the cluster, dsqlsim, AWS' part
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
