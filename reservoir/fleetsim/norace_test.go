//go:build !race

package fleetsim

// mostSidecars of a fleet that a test simulates.
const mostSidecars = 2000
