package config

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// AddFlags defines --config and a flag for each key of the table that has one.
// It returns where the value of --config will be.
func AddFlags(flags *pflag.FlagSet) *string { return AddFlagsOf(flags, "") }

// AddFlagsOf is AddFlags for the keys whose names begin so.
func AddFlagsOf(flags *pflag.FlagSet, prefixes ...string) *string {
	path := flags.String("config", "", "YAML configuration file")
	for i := range Keys {
		k := &Keys[i]
		if k.Flag() == "" || !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(k.Name, p) }) {
			continue
		}
		f := flags.VarPF(&textFlag{kind: k.kind(), text: k.Plain(k.Default)}, k.Flag(), "", k.explain())
		if _, ok := k.Default.(bool); ok {
			f.NoOptDefVal = "true"
		}
	}
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if whole, ok := flagAliases[name]; ok {
			name = whole
		}
		return pflag.NormalizedName(name)
	})
	flags.SortFlags = false // the table's order goes by subject
	return path
}

// A textFlag takes any text. What it means is decided with the key's other
// sources, so that all problems are told at once and in the same words.
type textFlag struct {
	kind, text string
}

func (f *textFlag) Set(text string) error { f.text = text; return nil }

func (f *textFlag) String() string { return f.text }

// Type is shown by --help.
func (f *textFlag) Type() string { return f.kind }

// A givenFlag shows viper a flag as text, whatever its type: viper's own
// conversion makes false of "maybe" and 0 of "many".
type givenFlag struct{ *pflag.Flag }

func (f givenFlag) HasChanged() bool { return f.Changed }

func (f givenFlag) Name() string { return f.Flag.Name }

func (f givenFlag) ValueString() string { return f.Value.String() }

func (f givenFlag) ValueType() string { return "string" }
