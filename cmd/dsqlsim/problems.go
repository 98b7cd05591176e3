package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// recordBadValues makes every flag of the set record a bad value as a problem. Parsing then continues, and all bad
// values are reported.
func (f *flags) recordBadValues(set *pflag.FlagSet) {
	set.VisitAll(func(flag *pflag.Flag) {
		if _, done := flag.Value.(*recordingValue); !done {
			flag.Value = &recordingValue{flag.Value, flag.Name, &f.problems}
		}
	})
}

// recordingValue is a flag's value that records a bad value as a problem.
type recordingValue struct {
	pflag.Value
	flag     string
	problems *[]error
}

// expectedByType describes the values of each type of flag.
var expectedByType = map[string]string{
	"bool":     "true or false",
	"int":      "a whole number",
	"float64":  "a number",
	"duration": "a duration with its unit, such as 500ms, 90s or 60m",
}

func (n *recordingValue) Set(given string) error {
	before := n.String()
	if n.Value.Set(given) != nil {
		_ = n.Value.Set(before) // a failed Set may have stored zero, which would be a second problem
		*n.problems = append(*n.problems, fmt.Errorf("--%s %q: want %s", n.flag, given, expectedByType[n.Type()]))
	}
	return nil
}

// dropUnknownArgs removes unknown words and flags from the arguments and records them as problems. So one error
// reports them together with the invalid values of known flags.
func (f *flags) dropUnknownArgs(root *cobra.Command, args []string) []string {
	wrong := func(format string, values ...any) { f.problems = append(f.problems, fmt.Errorf(format, values...)) }
	cmd, words, err := root.Find(args)
	if err != nil {
		return args // cobra reports it
	}
	cmd.InitDefaultHelpFlag()
	var kept []string
	if cmd != root {
		kept = append(kept, cmd.Name())
	}
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if !strings.HasPrefix(word, "-") {
			wrong("%s: there is no such command: see %s --help", word, root.Name())
			continue
		}
		name, _, whole := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		flag := cmd.Flag(name)
		switch {
		case word == "-h":
			kept = append(kept, word)
		case flag == nil:
			wrong("%s: there is no such flag: see %s --help", word, cmd.CommandPath())
			if len(words) > 0 && !whole && !strings.HasPrefix(words[0], "-") {
				words = words[1:] // probably its value
			}
		case whole || flag.NoOptDefVal != "":
			kept = append(kept, word)
		case len(words) == 0:
			wrong("%s: want a value behind it", word)
		default:
			kept = append(kept, word, words[0])
			words = words[1:]
		}
	}
	return kept
}

// splitJoinedError returns the errors that errors.Join has joined in err.
func splitJoinedError(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var problems []error
	for _, each := range joined.Unwrap() {
		problems = append(problems, splitJoinedError(each)...)
	}
	return problems
}
