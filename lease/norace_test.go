//go:build !race

package lease

// How many random schedules a test runs.
const (
	memorySchedules = 10_000
	tableSchedules  = 40
)
