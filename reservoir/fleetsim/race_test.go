//go:build race

package fleetsim

// mostSidecars of a fleet that a test simulates: the race detector makes it ten
// times as long.
const mostSidecars = 200
