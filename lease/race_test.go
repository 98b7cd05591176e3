//go:build race

package lease

// How many random schedules a test runs: the race detector makes each ten times
// as long, and finds what it finds in the first ones.
const (
	memorySchedules = 500
	tableSchedules  = 8
)
