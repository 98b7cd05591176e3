package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// collect makes every flag of the set note a bad value instead of ending the
// parse at the first.
func (f *flags) collect(set *pflag.FlagSet) {
	set.VisitAll(func(flag *pflag.Flag) {
		if _, done := flag.Value.(*noted); !done {
			flag.Value = &noted{flag.Value, flag.Name, &f.problems}
		}
	})
}

// noted is a flag's value that notes what is wrong with it.
type noted struct {
	pflag.Value
	flag     string
	problems *[]error
}

// wanted says what a value of a flag's type looks like.
var wanted = map[string]string{
	"bool":     "true or false",
	"int":      "a whole number",
	"float64":  "a number",
	"duration": "a duration with its unit, such as 500ms, 90s or 60m",
}

func (n *noted) Set(given string) error {
	before := n.String()
	if n.Value.Set(given) != nil {
		_ = n.Value.Set(before) // it may have become zero, which is another problem
		*n.problems = append(*n.problems, fmt.Errorf("--%s %q: want %s", n.flag, given, wanted[n.Type()]))
	}
	return nil
}

// sift takes out of the arguments everything that the command which they name
// does not know, so that it is reported together with what is wrong with the
// rest.
func (f *flags) sift(root *cobra.Command, args []string) []string {
	wrong := func(format string, values ...any) { f.problems = append(f.problems, fmt.Errorf(format, values...)) }
	cmd, words, err := root.Find(args)
	if err != nil {
		return args // cobra will say it
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
				words = words[1:] // its value, most likely
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

// problemsOf takes apart what errors.Join joined.
func problemsOf(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var problems []error
	for _, each := range joined.Unwrap() {
		problems = append(problems, problemsOf(each)...)
	}
	return problems
}
