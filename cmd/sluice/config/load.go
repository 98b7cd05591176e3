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

// An Error is everything that is wrong with a configuration.
type Error struct {
	// Problems are lines of the form "key: value: remedy (origin)".
	Problems []string
}

// Error returns the problems, one a line.
func (e *Error) Error() string { return strings.Join(e.Problems, "\n") }

// Gathered is one configuration and all that is wrong with it.
type Gathered struct {
	Config     *Config
	path       string // the file's, "" for none
	Unreadable bool   // the file is
	flags      *pflag.FlagSet
	values     *viper.Viper
	Problems   []string
}

// Load fills a Config from, in rising precedence, the defaults, the YAML file at
// path ("" for none), the DSQL_ variables and the flags that were given. The
// error is an *Error.
func Load(path string, flags *pflag.FlagSet) (*Config, error) {
	l := Gather(path, flags)
	if !l.Unreadable { // else half of what follows would be noise
		l.Problems = append(l.Problems, l.Config.Problems(l.Config.validate())...)
	}
	if len(l.Problems) > 0 {
		return nil, &Error{Problems: l.Problems}
	}
	return l.Config, nil
}

// Gather takes every value from where it stands highest and judges each alone.
func Gather(path string, flags *pflag.FlagSet) *Gathered {
	l := &Gathered{
		Config: &Config{values: map[string]any{}, origins: map[string]string{}},
		path:   path, flags: flags, values: viper.New(),
	}
	l.values.AllowEmptyEnv(true) // DSQL_ADMIN_ADDRESS= turns the listener off
	for i := range Keys {
		l.values.SetDefault(Keys[i].Name, Keys[i].Default)
		// Bound one by one: viper's AutomaticEnv lets DSQL_LISTEN hide listen.*.
		_ = l.values.BindEnv(Keys[i].Name, Keys[i].Env()) // fails on an empty key only
		if flag := flags.Lookup(Keys[i].Flag()); flag != nil {
			_ = l.values.BindFlagValue(Keys[i].Name, givenFlag{flag}) // fails on a nil flag only
		}
	}
	l.readFile()
	for i := range Keys {
		l.take(&Keys[i])
	}
	l.Config.derive()
	l.Config.Warnings = unknownVariables(os.Environ())
	return l
}

// PodProblems says what serve would say of a configuration of these values, in the
// environment of a container that has no others.
func PodProblems(values map[string]string) (problems []string) {
	c := &Config{values: map[string]any{}, origins: map[string]string{}}
	for i := range Keys {
		k := &Keys[i]
		value := k.Default
		if text, set := values[k.Name]; set {
			decoded, err := k.decode(text)
			if err == nil {
				value = decoded
			} else {
				problems = append(problems, fmt.Sprintf("%s: %s: %v", k.Name, k.show(text), err))
			}
		}
		c.values[k.Name] = value
		k.store(c, value)
	}
	c.derive()
	return append(problems, c.Problems(c.validate())...)
}

// readFile merges the file into the values and reports keys that the table lacks.
func (l *Gathered) readFile() {
	if l.path == "" {
		return
	}
	file := viper.New()
	file.SetConfigFile(l.path)
	file.SetConfigType("yaml") // whatever the name: mounted files have odd ones
	if err := file.ReadInConfig(); err != nil {
		l.Problems = append(l.Problems, fmt.Sprintf("%s: %v (flag --config)", l.path, err))
		l.Unreadable = true
		return
	}
	names := file.AllKeys()
	slices.Sort(names)
	for _, name := range names {
		if problem := unknownKey(name, file.Get(name) == nil); problem != "" {
			l.Problems = append(l.Problems, fmt.Sprintf("%s: %s (file %s)", name, problem, l.path))
		}
	}
	_ = l.values.MergeConfigMap(file.AllSettings()) // merging maps cannot fail
}

// unknownKey says what is wrong with a name in the file, "" for nothing. The
// value is left out of the message: it may be a secret under a misspelt name.
func unknownKey(name string, empty bool) string {
	if KeyNamed(name) != nil {
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

// take decodes the value of one key, stores it, and notes where it came from.
func (l *Gathered) take(k *Key) {
	c := l.Config
	raw := l.values.Get(k.Name)
	c.origins[k.Name] = l.origin(k)
	value, err := k.decode(raw)
	switch {
	case raw == nil: // behind something that readFile reported
		value = k.Default
	case err != nil:
		text := err.Error()
		if kubernetesValue(raw) {
			text += "; Kubernetes sets this for a Service of that name: set enableServiceLinks to false"
		}
		l.add(k.Name, fmt.Sprintf("%s: %s: %s", k.Name, k.show(raw), text))
		value = k.Default
	}
	c.values[k.Name] = value
	k.store(c, value)
}

// origin says which of the four sources a key's value has.
func (l *Gathered) origin(k *Key) string {
	if name := k.Flag(); name != "" && l.flags.Changed(name) {
		return "flag --" + name
	}
	if _, set := os.LookupEnv(k.Env()); set {
		return "env " + k.Env()
	}
	if l.values.InConfig(k.Name) {
		return "file " + l.path
	}
	return "default"
}

// add notes a problem of a key, with its origin behind.
func (l *Gathered) add(name, problem string) {
	l.Problems = append(l.Problems, fmt.Sprintf("%s (%s)", problem, l.Config.origins[name]))
}

// Problems makes lines of a joined error, one of each. An error that begins with
// a key and a colon gets that key's origin behind.
func (c *Config) Problems(err error) []string {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, err := range joined.Unwrap() {
			lines = append(lines, c.Problems(err)...)
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

// serviceVariable matches what Kubernetes sets in every pod for a Service whose
// name begins with dsql, apart from <NAME>_PORT of the longer names, which is
// told from a misspelt key by its value.
var serviceVariable = regexp.MustCompile(
	`^DSQL_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$|^DSQL_PORT$`)

// kubernetesValue tells the value of a <NAME>_PORT variable of a Service.
func kubernetesValue(raw any) bool {
	text, _ := raw.(string)
	return strings.HasPrefix(text, "tcp://") || strings.HasPrefix(text, "udp://")
}

// unknownVariables returns a warning for each DSQL_ variable without a key. Its
// value is left out: it may be a secret under a misspelt name.
func unknownVariables(environ []string) []string {
	names := make([]string, len(Keys))
	for i := range Keys {
		names[i] = Keys[i].Env()
	}
	var warnings []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, EnvPrefix) || slices.Contains(names, name) ||
			serviceVariable.MatchString(name) || kubernetesValue(value) {
			continue
		}
		warnings = append(warnings, "unknown variable "+name+" has no effect"+DidYouMean(name, names))
	}
	return warnings
}
