//go:build race

package fleetsim

// The race detector makes it ten times as long.
const (
	// mostSidecars of a fleet that a test simulates.
	mostSidecars = 200
	// troubles of pods, one after the other.
	troubles = 40
)
