package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes; doc.go says when.
const (
	exitOK      = 0
	exitRuntime = 1
	exitUsage   = 2
)

func execute(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	if bad, ok := errors.AsType[*ConfigError](err); ok && len(bad.Problems) > 0 {
		fmt.Fprintf(stderr, "sluice: the configuration has %s:\n", plural(len(bad.Problems), "problem"))
		fmt.Fprintf(stderr, "  %s\n", strings.Join(bad.Problems, "\n  "))
		return exitUsage
	}
	fmt.Fprintln(stderr, "sluice:", err)
	if _, ok := errors.AsType[*runtimeError](err); ok {
		return exitRuntime
	}
	return exitUsage
}

// A runtimeError happened while a well-formed command did its work. Every other
// error of a command is about its arguments or its configuration.
type runtimeError struct{ error }

func (e *runtimeError) Unwrap() error { return e.error }

// atRuntime marks an error as one of running; nil stays nil.
func atRuntime(err error) error {
	if err == nil {
		return nil
	}
	return &runtimeError{err}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
