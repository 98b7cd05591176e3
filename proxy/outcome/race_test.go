//go:build race

package outcome

const longest = 4 // commands of a turn in TestOutcome
