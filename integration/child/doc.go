// Package child starts programs that cannot outlive the process that started them: temporary servers of tests, and all
// programs of `make run`.
//
// The kernel sends a child its parent-death signal when the *thread* that forked it ends, not the process. The Go
// runtime may end threads at any time. One goroutine therefore starts each child and waits for it. The goroutine
// stays locked to its thread for the child's whole life.
package child
