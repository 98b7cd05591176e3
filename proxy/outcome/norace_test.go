//go:build !race

package outcome

const longest = 5 // commands of a turn in TestOutcome
