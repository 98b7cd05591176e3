package config

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// AddFlags defines --config and a flag for each configuration key that has one. AddFlags returns the variable that
// receives the value of --config.
func AddFlags(flags *pflag.FlagSet) *string { return AddFlagsWithPrefix(flags, "") }

// AddFlagsWithPrefix defines --config and a flag for each configuration key whose name begins with one of the prefixes.
// AddFlagsWithPrefix returns the variable that receives the value of --config.
func AddFlagsWithPrefix(flags *pflag.FlagSet, prefixes ...string) *string {
	path := flags.String("config", "", "YAML configuration file")
	for i := range Keys {
		k := &Keys[i]
		if k.FlagName() == "" || !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(k.Name, p) }) {
			continue
		}
		f := flags.VarPF(&textFlag{kind: k.typeName(), text: k.PlainText(k.Default)}, k.FlagName(), "", k.fullHelp())
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
	flags.SortFlags = false // the table's order is by topic
	return path
}

// A textFlag is a flag that accepts any text. The text is decoded later, together with the key's other sources. All
// problems are thereby reported at once and in the same words.
type textFlag struct {
	kind, text string
}

func (f *textFlag) Set(text string) error { f.text = text; return nil }

func (f *textFlag) String() string { return f.text }

// Type returns the name of the flag's type for --help.
func (f *textFlag) Type() string { return f.kind }

// A viperFlag passes a flag to viper as text, whatever its type. Viper's own conversion would turn "maybe" into
// false and "many" into 0.
type viperFlag struct{ *pflag.Flag }

func (f viperFlag) HasChanged() bool { return f.Changed }

func (f viperFlag) Name() string { return f.Flag.Name }

func (f viperFlag) ValueString() string { return f.Value.String() }

func (f viperFlag) ValueType() string { return "string" }
