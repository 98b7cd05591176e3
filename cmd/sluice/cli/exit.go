package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
)

// These are the exit codes of the program sluice.
const (
	ExitOK      = 0
	ExitRuntime = 1 // a failure while a command worked
	ExitUsage   = 2 // a wrong command line or configuration
)

// Execute runs one command line of root and returns the exit code. Execute prints errors to stderr.
func Execute(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return ExitOK
	}
	if bad, ok := errors.AsType[*config.Error](err); ok && len(bad.Problems) > 0 {
		fmt.Fprintf(stderr, "sluice: the configuration has %s:\n", FormatCount(len(bad.Problems), "problem"))
		fmt.Fprintf(stderr, "  %s\n", strings.Join(bad.Problems, "\n  "))
		return ExitUsage
	}
	fmt.Fprintln(stderr, "sluice:", err)
	if _, ok := errors.AsType[*runtimeError](err); ok {
		return ExitRuntime
	}
	return ExitUsage
}

// runtimeError is a failure of a command whose arguments and configuration are valid. All other errors of a command
// concern its arguments or its configuration.
type runtimeError struct{ error }

func (e *runtimeError) Unwrap() error { return e.error }

// AsRuntimeError marks an error as a failure while a command runs. AsRuntimeError returns nil for nil.
func AsRuntimeError(err error) error {
	if err == nil {
		return nil
	}
	return &runtimeError{err}
}

// FormatCount returns a count with its noun, such as "1 file" and "2 files".
func FormatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
