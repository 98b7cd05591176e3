// Package charts proves the Helm chart and the manifests of deploy/kubernetes without a
// cluster. The chart is rendered and linted by Helm's own packages over a table of values,
// for two versions of Kubernetes; every document, rendered or to be copied, is held against
// schemas/, in which a field that Kubernetes does not know is an error.
//
// Helm's packages for rendering and linting are half of what its command compiles; of the
// command nothing is missed here but reading what renders.
//
// What runs in the rendered containers is written to testdata/containers.json, which a test
// of cmd/sluice/injectcmd holds against the program's flags and keys.
//
// The module is one of its own: none of Helm's dependencies gets near Sluice's.
package charts
