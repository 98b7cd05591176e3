// Package inject puts Sluice into pods, as a native sidecar: it judges a pod and says
// which JSONPatch makes it one with a Sluice. It is the admission webhook of a cluster,
// and works on manifests that no cluster has seen.
//
// It uses the standard library only and knows nothing else of Sluice: the table of
// configuration keys, and what judges a configuration, are handed in.
//
// # Files
//
//	inject.go    Injector: a pod in, a verdict out
//	settings.go  what a pod's labels and annotations ask for
//	pod.go       what of a pod is in the way: ports, names, Windows
//	sidecar.go   the container and the volume that are added
//	quantity.go  quantities of memory, as Kubernetes spells them
//	raw.go       JSON that is looked at without being understood
//	patch.go     JSONPatch, and what carries it out on a text
//	manifest.go  the pods and pod templates inside of manifests
//	review.go    AdmissionReview (v1)
//	server.go    the webhook over HTTPS
//
// # Invariants
//
// A pod is never decoded into types and encoded again: what this package does not know
// stays as it is, to the digit. Whatever a pod holds, the patch is one that applies. A
// pod that has been through it once gets an empty patch. A pod that asks for something
// wrong is refused with every reason, never given less than it asked for.
package inject
