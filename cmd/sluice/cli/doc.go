// Package cli has the common parts of sluice's commands: the root command, the execution of a
// command line, exit codes, and reading of inputs.
//
// A command returns an error. AsRuntimeError marks errors of running; all others are errors of usage.
// Execute prints the error and returns the exit code.
package cli
