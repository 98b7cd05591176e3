// Package charts tests the Helm chart and the manifests of deploy/kubernetes without a cluster. Helm's own packages
// render and lint the chart for a table of values and for two versions of Kubernetes. Every document, rendered or to be
// copied, is checked against schemas/, where a field that Kubernetes does not know is an error.
//
// Package charts imports only Helm's packages for rendering and linting, half of the code of Helm's command.
//
// The commands of the rendered containers are written to testdata/containers.json. A test of cmd/sluice/injectcmd
// compares that file with the program's flags and keys.
//
// Package charts is in a separate module, so that none of Helm's dependencies affects Sluice's.
package charts
