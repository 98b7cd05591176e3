// Package cli has what the commands of sluice share: the root command, the run of a command
// line, exit codes, and the text of an input.
//
// A command returns an error. AtRuntime marks errors of running; all others are errors of usage.
// Execute prints the error and returns the exit code.
package cli
