// Package inject adds Sluice to pods as a native sidecar: for a pod it returns a verdict, with a JSONPatch that adds
// the container. The package implements a Kubernetes cluster's admission webhook, and changes manifests in files.
//
// Package inject uses the standard library only and imports nothing of Sluice. The caller passes the table of
// configuration keys, and a check of configurations.
//
// # Files
//
//	inject.go    Injector: a pod in, a verdict out
//	settings.go  a pod's labels and annotations
//	pod.go       obstacles in a pod: ports, names, Windows
//	sidecar.go   the container and the volumes to add
//	quantity.go  quantities of memory, in Kubernetes' notation
//	raw.go       access to JSON without types
//	patch.go     JSONPatch, and its application to a text
//	manifest.go  the pods and pod templates in manifests
//	review.go    AdmissionReview (v1)
//	server.go    the webhook over HTTPS
//
// # Invariants
//
// A pod is never decoded into types and encoded again: unknown parts stay unchanged, to the digit.
// The patch applies to any pod. A pod with Sluice gets an empty patch. A pod with a wrong
// annotation is refused, with every reason, and never gets less than it asked for.
package inject
