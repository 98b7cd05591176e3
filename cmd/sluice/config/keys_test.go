package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestKeysShareNoVariableAndNoFlag(t *testing.T) {
	t.Parallel()
	envs, flags := map[string]string{}, map[string]string{"config": "--config", "connect": "check --connect", "help": "--help"}
	for alias, whole := range flagAliases {
		flags[alias] = "alias of " + whole
	}
	for i := range Keys {
		k := &Keys[i]
		if other, taken := envs[k.EnvName()]; taken {
			t.Errorf("%s and %s share the variable %s", k.Name, other, k.EnvName())
		}
		envs[k.EnvName()] = k.Name
		if k.FlagName() == "" {
			continue
		}
		if other, taken := flags[k.FlagName()]; taken {
			t.Errorf("%s and %s share the flag --%s", k.Name, other, k.FlagName())
		}
		flags[k.FlagName()] = k.Name
	}
	for alias, whole := range flagAliases {
		if _, exists := flags[whole]; !exists {
			t.Errorf("--%s stands for --%s, which does not exist", alias, whole)
		}
	}
}

// serviceVariables are what Kubernetes sets in every pod of a namespace that has
// a Service named dsql with one named and one unnamed port, by protocol.
func serviceVariables() []string {
	names := []string{"DSQL_SERVICE_HOST", "DSQL_SERVICE_PORT", "DSQL_PORT"}
	for _, port := range []string{"POSTGRES", "PG", "METRICS", "HTTP_ADMIN"} {
		names = append(names, "DSQL_SERVICE_PORT_"+port)
	}
	for _, port := range []string{"5432", "80"} {
		for _, protocol := range []string{"TCP", "UDP", "SCTP"} {
			for _, end := range []string{"", "_PROTO", "_PORT", "_ADDR"} {
				names = append(names, "DSQL_PORT_"+port+"_"+protocol+end)
			}
		}
	}
	return names
}

func TestNoKeyIsSetByAKubernetesService(t *testing.T) {
	t.Parallel()
	set := map[string]bool{}
	for _, name := range serviceVariables() {
		set[name] = true
		if !serviceVariablePattern.MatchString(name) {
			t.Errorf("%s is not known as a Service's variable", name)
		}
	}
	for i := range Keys {
		if name := Keys[i].EnvName(); set[name] || serviceVariablePattern.MatchString(name) {
			t.Errorf("%s: Kubernetes sets %s for a Service", Keys[i].Name, name)
		}
	}
}

func TestEveryKeyFillsAFieldOfItsOwn(t *testing.T) {
	t.Parallel()
	var c Config
	fields := map[any]string{}
	for i := range Keys {
		k := &Keys[i]
		if k.help == "" || !strings.HasSuffix(k.help, ".") {
			t.Errorf("%s: help %q is no sentence", k.Name, k.help)
		}
		field := k.field(&c)
		if other, taken := fields[field]; taken {
			t.Errorf("%s and %s fill the same field", k.Name, other)
		}
		fields[field] = k.Name
		if got, want := reflect.TypeOf(field).Elem(), reflect.TypeOf(k.Default); got != want {
			t.Errorf("%s: a default of type %s for a field of type %s", k.Name, want, got)
			continue
		}
		k.storeValue(&c, k.Default)
		if got := reflect.ValueOf(field).Elem().Interface(); !reflect.DeepEqual(got, k.Default) {
			t.Errorf("%s: stored %v, field holds %v", k.Name, k.Default, got)
		}
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	number, flag, duration := &Key{Name: "n", Default: 1}, &Key{Name: "b", Default: false}, &Key{Name: "d", Default: time.Second}
	text, list := &Key{Name: "t", Default: ""}, &Key{Name: "l", Default: []string{}}
	choice := &Key{Name: "c", Default: "auto", Choices: []string{"auto", "true", "false"}}
	for _, test := range []struct {
		key  *Key
		raw  any
		want any // nil: refused
	}{
		{number, 7, 7}, {number, "7", 7}, {number, "-7", -7}, {number, "", nil}, {number, "7x", nil}, {number, 7.5, nil}, {number, true, nil},
		{flag, true, true}, {flag, "false", false}, {flag, "yes", nil}, {flag, 1, nil}, {flag, "", nil},
		{duration, "90s", 90 * time.Second}, {duration, "1h2m", 62 * time.Minute}, {duration, 0, time.Duration(0)}, {duration, "0", time.Duration(0)},
		{duration, 15, nil}, {duration, "15", nil}, {duration, "", nil},
		{text, "x", "x"}, {text, "", ""}, {text, 123, nil}, {text, true, nil}, {text, []any{"x"}, nil},
		{list, "a, b", []string{"a", "b"}}, {list, "", []string{}}, {list, []any{"a", "b"}, []string{"a", "b"}}, {list, []any{}, []string{}},
		{list, []any{1}, nil}, {list, "a,,b", nil}, {list, 5, nil},
		{choice, "true", "true"}, {choice, true, "true"}, {choice, "maybe", nil}, {choice, 1, nil},
	} {
		got, err := test.key.decodeValue(test.raw)
		if (err != nil) != (test.want == nil) || err == nil && !reflect.DeepEqual(got, test.want) {
			t.Errorf("key of type %T: decode(%#v) = %#v, %v; want %#v", test.key.Default, test.raw, got, err, test.want)
		}
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	candidates := []string{"listen.address", "admin.address", "backend.endpoint", "pairing"}
	for name, want := range map[string]string{
		"listen.adress": "listen.address", "endpoint": "backend.endpoint", "paring": "pairing",
		"backend.end_point": "backend.endpoint", "colour": "",
	} {
		if got := suggestName(name, candidates); got != want {
			t.Errorf("suggest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestUnknownVariablesAreWarnedAbout(t *testing.T) {
	environ := []string{"PATH=/bin", "DSQL_BACKEND_ENDPOINT=x", "DSQL_ENDPOINT=x", "DSQL_BAKEND_PORT=5433", "DSQL_REPLICA_PORT=tcp://10.0.0.1:80", "DSQL_COLOUR=s3cret"}
	for _, name := range serviceVariables() {
		environ = append(environ, name+"=x", strings.Replace(name, "DSQL_", "DSQL_SLUICE_", 1)+"=tcp://x")
	}
	want := []string{
		"unknown variable DSQL_ENDPOINT has no effect; did you mean DSQL_BACKEND_ENDPOINT?",
		"unknown variable DSQL_BAKEND_PORT has no effect; did you mean DSQL_BACKEND_PORT?",
		"unknown variable DSQL_COLOUR has no effect",
	}
	if got := unknownVariableWarnings(environ); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
