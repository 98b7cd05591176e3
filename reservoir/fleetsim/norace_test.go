//go:build !race

package fleetsim

const (
	// mostSidecars of a fleet that a test simulates.
	mostSidecars = 2000
	// troubles of pods, one after the other.
	troubles = 150
)
