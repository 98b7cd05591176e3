// Package child starts programs that cannot outlive the process that started
// them: throw-away servers of tests, and everything that `make run` brings up.
//
// The kernel sends a child its parent-death signal when the *thread* that
// forked it ends, not the process, and the Go runtime ends threads as it likes.
// Each child is therefore started, and waited for, by one goroutine that stays
// locked to its thread for the child's whole life.
package child
