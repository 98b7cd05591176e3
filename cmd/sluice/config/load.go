package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// An Error lists everything that is wrong with a configuration.
type Error struct {
	// Problems are the problems of the configuration, lines of the form "key: value: remedy (origin)".
	Problems []string
}

// Error returns one problem on each line.
func (e *Error) Error() string { return strings.Join(e.Problems, "\n") }

// LoadResult is a configuration with its problems.
type LoadResult struct {
	Config     *Config
	path       string // the path of the file, "" for none
	Unreadable bool   // the file cannot be read
	flags      *pflag.FlagSet
	values     *viper.Viper
	Problems   []string
}

// Load returns the Config from four sources, in rising precedence: the defaults, the YAML file at path ("" for none),
// the DSQL_ variables, and the given flags. The error is an *Error.
func Load(path string, flags *pflag.FlagSet) (*Config, error) {
	l := LoadWithProblems(path, flags)
	if !l.Unreadable { // without the file, later checks would only report follow-up problems
		l.Problems = append(l.Problems, l.Config.FormatProblems(l.Config.validate())...)
	}
	if len(l.Problems) > 0 {
		return nil, &Error{Problems: l.Problems}
	}
	return l.Config, nil
}

// LoadWithProblems takes every key's value from its source of highest precedence, and checks each value separately.
func LoadWithProblems(path string, flags *pflag.FlagSet) *LoadResult {
	l := &LoadResult{
		Config: &Config{values: map[string]any{}, origins: map[string]string{}},
		path:   path, flags: flags, values: viper.New(),
	}
	l.values.AllowEmptyEnv(true) // an empty DSQL_ADMIN_ADDRESS turns the listener off
	for i := range Keys {
		l.values.SetDefault(Keys[i].Name, Keys[i].Default)
		// The variables are bound one by one, because viper's AutomaticEnv lets DSQL_LISTEN hide listen.*.
		_ = l.values.BindEnv(Keys[i].Name, Keys[i].EnvName()) // fails on an empty key only
		if flag := flags.Lookup(Keys[i].FlagName()); flag != nil {
			_ = l.values.BindFlagValue(Keys[i].Name, viperFlag{flag}) // fails on a nil flag only
		}
	}
	l.readFile()
	for i := range Keys {
		l.loadKey(&Keys[i])
	}
	l.Config.deriveFields()
	l.Config.Warnings = unknownVariableWarnings(os.Environ())
	return l
}

// CheckPodValues returns the problems that sluice serve would report for values, which maps configuration keys to
// values. The container's environment has no other variables.
func CheckPodValues(values map[string]string) (problems []string) {
	c := &Config{values: map[string]any{}, origins: map[string]string{}}
	for i := range Keys {
		k := &Keys[i]
		value := k.Default
		if text, set := values[k.Name]; set {
			decoded, err := k.decodeValue(text)
			if err == nil {
				value = decoded
			} else {
				problems = append(problems, fmt.Sprintf("%s: %s: %v", k.Name, k.formatValue(text), err))
			}
		}
		c.values[k.Name] = value
		k.storeValue(c, value)
	}
	c.deriveFields()
	return append(problems, c.FormatProblems(c.validate())...)
}

// readFile merges the configuration file into the values, and reports unknown keys.
func (l *LoadResult) readFile() {
	if l.path == "" {
		return
	}
	file := viper.New()
	file.SetConfigFile(l.path)
	file.SetConfigType("yaml") // for any file name, because mounted files have unusual ones
	if err := file.ReadInConfig(); err != nil {
		l.Problems = append(l.Problems, fmt.Sprintf("%s: %v (flag --config)", l.path, err))
		l.Unreadable = true
		return
	}
	names := file.AllKeys()
	slices.Sort(names)
	for _, name := range names {
		if problem := unknownKeyProblem(name, file.Get(name) == nil); problem != "" {
			l.Problems = append(l.Problems, fmt.Sprintf("%s: %s (file %s)", name, problem, l.path))
		}
	}
	_ = l.values.MergeConfigMap(file.AllSettings()) // merging maps cannot fail
}

// unknownKeyProblem returns the problem of a name in the configuration file that is no key, or "" for a key. The
// message does not contain the value, which may be a secret under a misspelled name.
func unknownKeyProblem(name string, empty bool) string {
	if KeyByName(name) != nil {
		return ""
	}
	names := KeyNames()
	for _, key := range names {
		if strings.HasPrefix(key, name+".") {
			if empty { // a section with all its lines commented out
				return ""
			}
			return "a section, not a value: write its keys below it"
		}
		if strings.HasPrefix(name, key+".") {
			return key + " takes a value, not a section"
		}
	}
	return "unknown key" + DidYouMean(name, names)
}

// loadKey decodes and stores the value of one configuration key, with its source.
func (l *LoadResult) loadKey(k *Key) {
	c := l.Config
	raw := l.values.Get(k.Name)
	c.origins[k.Name] = l.originOfKey(k)
	value, err := k.decodeValue(raw)
	switch {
	case raw == nil: // readFile has reported the cause
		value = k.Default
	case err != nil:
		text := err.Error()
		if isServicePortValue(raw) {
			text += "; Kubernetes sets this for a Service of that name: set enableServiceLinks to false"
		}
		l.addProblem(k.Name, fmt.Sprintf("%s: %s: %s", k.Name, k.formatValue(raw), text))
		value = k.Default
	}
	c.values[k.Name] = value
	k.storeValue(c, value)
}

// originOfKey returns the name of the source that a key's value has: default, file, variable or flag.
func (l *LoadResult) originOfKey(k *Key) string {
	if name := k.FlagName(); name != "" && l.flags.Changed(name) {
		return "flag --" + name
	}
	if _, set := os.LookupEnv(k.EnvName()); set {
		return "env " + k.EnvName()
	}
	if l.values.InConfig(k.Name) {
		return "file " + l.path
	}
	return "default"
}

// addProblem records a problem of a configuration key, followed by the key's source.
func (l *LoadResult) addProblem(name, problem string) {
	l.Problems = append(l.Problems, fmt.Sprintf("%s (%s)", problem, l.Config.origins[name]))
}

// FormatProblems returns one line for each error of a joined error. A line that begins with a key and a colon ends
// with that key's source.
func (c *Config) FormatProblems(err error) []string {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, err := range joined.Unwrap() {
			lines = append(lines, c.FormatProblems(err)...)
		}
		return lines
	}
	line := strings.ReplaceAll(err.Error(), "\n", " ")
	name, _, _ := strings.Cut(line, ":")
	if origin, ok := c.origins[name]; ok {
		line += " (" + origin + ")"
	}
	return []string{line}
}

// serviceVariablePattern matches the variables that Kubernetes sets in every pod for a Service whose name begins with
// dsql. The pattern does not match <NAME>_PORT of longer names, which isServicePortValue distinguishes from a
// misspelled key.
var serviceVariablePattern = regexp.MustCompile(
	`^DSQL_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$|^DSQL_PORT$`)

// isServicePortValue reports whether a value has the form that Kubernetes gives to a <NAME>_PORT variable of a Service.
func isServicePortValue(raw any) bool {
	text, _ := raw.(string)
	return strings.HasPrefix(text, "tcp://") || strings.HasPrefix(text, "udp://")
}

// unknownVariableWarnings returns a warning for each environment variable that begins with DSQL_ and belongs to no key.
// The warning does not contain the value, which may be a secret under a misspelled name.
func unknownVariableWarnings(environ []string) []string {
	names := make([]string, len(Keys))
	for i := range Keys {
		names[i] = Keys[i].EnvName()
	}
	var warnings []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, EnvPrefix) || slices.Contains(names, name) ||
			serviceVariablePattern.MatchString(name) || isServicePortValue(value) {
			continue
		}
		warnings = append(warnings, "unknown variable "+name+" has no effect"+DidYouMean(name, names))
	}
	return warnings
}
