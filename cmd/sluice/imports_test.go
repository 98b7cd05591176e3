package main

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// layers lists every product package, and says what of ours it may import: packages
// below it only.
var layers = map[string][]string{
	"cmd/sluice":                   {"cmd/sluice/cli", "cmd/sluice/config", "cmd/sluice/daemon", "cmd/sluice/doctor", "cmd/sluice/injectcmd", "cmd/sluice/leasecmd", "cmd/sluice/lint"},
	"cmd/sluice/daemon":            {"cmd/sluice/cli", "cmd/sluice/config", "proxy", "proxy/startup", "proxy/rawconn", "reservoir", "lease", "rewrite", "metrics"},
	"cmd/sluice/doctor":            {"cmd/sluice/cli", "cmd/sluice/config", "cmd/sluice/daemon", "proxy", "reservoir", "rewrite", "rewrite/schema"},
	"cmd/sluice/injectcmd":         {"cmd/sluice/cli", "cmd/sluice/config", "cmd/sluice/daemon", "cmd/sluice/inject", "metrics"},
	"cmd/sluice/leasecmd":          {"cmd/sluice/cli", "cmd/sluice/config", "cmd/sluice/daemon", "lease"},
	"cmd/sluice/lint":              {"cmd/sluice/cli", "cmd/sluice/config", "rewrite", "rewrite/lint", "rewrite/parse"},
	"cmd/sluice/cli":               {"cmd/sluice/config"},
	"cmd/sluice/config":            {"proxy", "proxy/startup", "reservoir", "lease", "rewrite", "rewrite/alter", "retry", "metrics"},
	"cmd/sluice/config/configtest": {"cmd/sluice/config", "rewrite"}, // of tests only
	"cmd/sluice/inject":            {},                               // nor anything of a third party

	"proxy":                {"proxy/access", "proxy/account", "proxy/admission", "proxy/advisory", "proxy/answer", "proxy/batch", "proxy/block", "proxy/constraint", "proxy/copyin", "proxy/cursor", "proxy/database", "proxy/ddl", "proxy/ddltx", "proxy/feature", "proxy/interrupt", "proxy/listing", "proxy/locktable", "proxy/mappederror", "proxy/mapping", "proxy/notice", "proxy/opening", "proxy/options", "proxy/outcome", "proxy/pin", "proxy/question", "proxy/rawconn", "proxy/recorded", "proxy/remains", "proxy/request", "proxy/result", "proxy/script", "proxy/sequence", "proxy/serverfacts", "proxy/serversettings", "proxy/settings", "proxy/silent", "proxy/sqlerror", "proxy/startup", "proxy/statement", "proxy/stopping", "proxy/stored", "proxy/trip", "proxy/txtime", "proxy/wire", "reservoir", "retry", "rewrite", "rewrite/finding", "rewrite/parse", "rewrite/schema", "rewrite/values", "metrics"},
	"proxy/access":         {"proxy/block", "proxy/settings", "proxy/wire", "retry", "rewrite"},
	"proxy/admission":      {"proxy/startup", "proxy/rawconn"},
	"proxy/advisory":       {"proxy/wire", "retry", "rewrite"},
	"proxy/batch":          {"proxy/wire", "retry", "rewrite", "rewrite/parse"},
	"proxy/block":          {"proxy/wire", "retry", "rewrite"},
	"proxy/catalog":        {"rewrite/schema"},
	"proxy/opening":        {"proxy/options", "proxy/pin", "proxy/serversettings", "proxy/settings", "proxy/startup", "proxy/wire", "retry", "rewrite", "rewrite/parse", "metrics"},
	"proxy/serverfacts":    {"proxy/interrupt", "proxy/question", "proxy/request", "proxy/silent", "proxy/wire", "retry", "rewrite"},
	"proxy/request":        {"proxy/wire", "retry"},
	"proxy/notice":         {"proxy/settings", "proxy/wire", "rewrite"},
	"proxy/mapping":        {"proxy/catalog", "proxy/settings", "proxy/wire", "retry", "rewrite", "rewrite/schema", "metrics"},
	"proxy/database":       {},
	"proxy/answer":         {"proxy/wire", "retry"},
	"proxy/mappederror":    {"proxy/wire", "rewrite/schema"},
	"proxy/options":        {"proxy/block", "proxy/feature", "proxy/settings", "proxy/silent", "proxy/wire", "retry", "rewrite"},
	"proxy/outcome":        {"proxy/block", "rewrite"},
	"proxy/pin":            {"proxy/leftover", "retry", "rewrite"},
	"proxy/startup":        {"proxy/wire", "proxy/rawconn"},
	"proxy/constraint":     {"proxy/wire", "retry", "rewrite", "rewrite/alter"},
	"proxy/ddl":            {"proxy/constraint", "proxy/listing", "proxy/wire", "retry", "rewrite", "rewrite/alter", "rewrite/parse", "rewrite/schema"},
	"proxy/ddltx":          {"proxy/access", "proxy/block", "proxy/feature", "proxy/listing", "proxy/options", "proxy/silent", "proxy/txtime", "proxy/wire", "retry", "rewrite", "rewrite/parse"},
	"proxy/statement":      {"proxy/account", "proxy/settings", "proxy/wire", "retry", "rewrite", "rewrite/parse", "rewrite/values"},
	"proxy/stopping":       {},
	"proxy/cursor":         {"proxy/statement", "proxy/stored", "proxy/wire", "retry", "rewrite"},
	"proxy/stored":         {"proxy/wire", "rewrite"},
	"proxy/feature":        {"proxy/silent", "proxy/wire", "rewrite", "rewrite/schema"},
	"proxy/interrupt":      {"proxy/wire", "reservoir"},
	"proxy/leftover":       {},
	"proxy/listing":        {},
	"proxy/locktable":      {"proxy/advisory", "proxy/wire", "retry"},
	"proxy/question":       {},
	"proxy/trip":           {},
	"proxy/account":        {},
	"proxy/copyin":         {"proxy/copyrows", "proxy/feature", "proxy/silent", "proxy/wire", "retry", "rewrite", "rewrite/schema"},
	"proxy/copyrows":       {},
	"proxy/recorded":       {"proxy/settings", "proxy/txtime", "proxy/wire", "rewrite", "rewrite/schema", "rewrite/values"},
	"proxy/remains":        {"proxy/question", "rewrite"},
	"proxy/result":         {"proxy/wire", "rewrite", "rewrite/parse"},
	"proxy/sequence":       {"rewrite"},
	"proxy/sqlerror":       {"proxy/wire", "reservoir", "retry", "rewrite"},
	"proxy/script":         {"proxy/access", "proxy/block", "proxy/options", "proxy/pin", "proxy/result", "proxy/serversettings", "proxy/settings", "proxy/sqlerror", "proxy/wire", "retry", "rewrite"},
	"proxy/serversettings": {"proxy/settings", "proxy/wire", "retry", "rewrite", "rewrite/parse"},
	"proxy/settings":       {"proxy/wire", "retry", "rewrite", "rewrite/parse"},
	"proxy/silent":         {"proxy/wire", "rewrite/parse"},
	"proxy/txtime":         {"proxy/settings", "proxy/wire", "rewrite", "rewrite/schema", "rewrite/values"},
	"proxy/wire":           {"proxy/rawconn"},
	"proxy/rawconn":        {},
	"reservoir":            {"lease", "metrics"},
	"reservoir/fleetsim":   {"lease"}, // tests only
	"lease":                {"metrics"},
	"rewrite":              {"rewrite/alter", "rewrite/bytea", "rewrite/finding", "rewrite/parse", "rewrite/schema"},
	"rewrite/alter":        {"rewrite/finding", "rewrite/parse"},
	"rewrite/bytea":        {"rewrite/parse", "rewrite/schema"},
	"rewrite/finding":      {},
	"rewrite/lint":         {"rewrite", "rewrite/finding", "rewrite/parse"},
	"rewrite/schema":       {"rewrite/parse"},
	"rewrite/values":       {"rewrite", "rewrite/parse", "rewrite/schema"},
	"rewrite/parse":        {},
	"retry":                {},
	"metrics":              {"retry"},
}

// doors says which product package may import a third-party package; the longest
// matching path counts. One door each; the exceptions are aws, whose types are how
// cmd hands credentials down, and system calls.
var doors = map[string][]string{
	"github.com/spf13/viper": {"cmd/sluice/config"},
	"github.com/spf13/cobra": {"cmd/sluice", "cmd/sluice/cli", "cmd/sluice/daemon", "cmd/sluice/doctor", "cmd/sluice/injectcmd", "cmd/sluice/leasecmd", "cmd/sluice/lint"},
	// cobra's and viper's flags
	"github.com/spf13/pflag": {"cmd/sluice/config", "cmd/sluice/config/configtest", "cmd/sluice/cli", "cmd/sluice/leasecmd", "cmd/sluice/lint"},
	"go.yaml.in/yaml/v3":     {"cmd/sluice", "cmd/sluice/injectcmd"}, // viper's; manifests keep their comments by it

	"github.com/aws/aws-sdk-go-v2/config":            {"cmd/sluice/daemon"},
	"github.com/aws/aws-sdk-go-v2/credentials":       {"cmd/sluice/daemon"}, // the names of their sources
	"github.com/aws/aws-sdk-go-v2/aws":               {"cmd/sluice/daemon", "reservoir", "lease"},
	"github.com/aws/aws-sdk-go-v2/feature/dsql/auth": {"reservoir"},
	"github.com/aws/aws-sdk-go-v2/service/dynamodb":  {"lease"},

	"github.com/jackc/pgx/v5/pgproto3": {"proxy", "proxy/startup", "proxy/wire"},
	"github.com/jackc/pgx/v5/pgconn":   {"reservoir"},
	"github.com/xdg-go/scram":          {"proxy/startup"},
	"golang.org/x/time/rate":           {"reservoir", "proxy/startup"}, // bounds dials, and guesses
	// A clock that goes on while the machine sleeps; what the kernel knows of a connection.
	"golang.org/x/sys/unix": {"lease", "proxy/rawconn"},

	"github.com/pganalyze/pg_query_go/v6": {"rewrite/parse"},
	"google.golang.org/protobuf":          {"rewrite/parse"}, // the parser's trees

	"github.com/prometheus/client_golang": {"metrics"},
	// Serving the registry over HTTP is the admin listener's business.
	"github.com/prometheus/client_golang/prometheus/promhttp": {"cmd/sluice/daemon", "cmd/sluice/injectcmd"},
	"github.com/prometheus/client_model":                      {"metrics"},
}

// testOnly may be imported by any test; by nothing else, but for the doors of the parser.
var testOnly = []string{
	"github.com/lib/pq", "github.com/jackc/pgx/v5", "pgregory.net/rapid", "go.uber.org/goleak",
	"github.com/prometheus/client_golang/prometheus/testutil",
	"github.com/pganalyze/pg_query_go/v6", "google.golang.org/protobuf", // trees as Go values
}

// configTest is a product package for tests only.
const configTest = "cmd/sluice/config/configtest"

func TestImportRules(t *testing.T) {
	t.Parallel()
	for _, file := range sourceFiles(t) {
		if !placed(file.dir) {
			t.Errorf("%s: the folder %s is not in the layout: a product package belongs into layers", file.name, file.dir)
			continue
		}
		for _, imported := range file.imports {
			if why := forbidden(file.dir, file.test, imported); why != "" {
				t.Errorf("%s imports %s: %s", file.name, imported, why)
			}
		}
	}
}

// forbidden says why a file of the package in dir may not import a package, or "".
func forbidden(dir string, test bool, imported string) string {
	own, isOwn := strings.CutPrefix(imported, module+"/")
	switch {
	case !isProduct(dir):
		if isOwn && isProduct(own) {
			return "what tests the product from outside must not share its code"
		}
		return ""
	case isOwn && test && (own == dir || own == configTest || strings.HasPrefix(own, "integration/")):
		return ""
	case isOwn && !slices.Contains(layers[dir], own):
		return "imports point downward only: " + dir + " may import " + strings.Join(layers[dir], ", ")
	case isOwn, !strings.Contains(strings.SplitN(imported, "/", 2)[0], "."): // the standard library
		return ""
	case test && slices.ContainsFunc(testOnly, func(p string) bool { return within(imported, p) }):
		return ""
	}
	door := ""
	for p := range doors {
		if within(imported, p) && len(p) > len(door) {
			door = p
		}
	}
	switch {
	case door == "":
		return "a third-party package without a door; adding one is a decision"
	case !slices.Contains(doors[door], dir):
		return "its door is " + strings.Join(doors[door], ", ")
	}
	return ""
}

// placed says whether the layout has a folder for packages.
func placed(dir string) bool {
	return isProduct(dir) || strings.HasPrefix(dir, "integration/") || dir == "cmd/dsqlsim"
}

func isProduct(dir string) bool {
	_, listed := layers[dir]
	return listed
}

func within(p, parent string) bool { return p == parent || strings.HasPrefix(p, parent+"/") }

func TestForbidden(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dir      string
		test     bool
		imported string
		allowed  bool
	}{
		{"cmd/sluice", false, module + "/proxy", false},
		{"cmd/sluice/daemon", false, module + "/proxy", true},
		{"cmd/sluice/config", false, module + "/cmd/sluice/daemon", false},
		{"cmd/sluice/lint", false, module + "/cmd/sluice/config/configtest", false},
		{"cmd/sluice/lint", true, module + "/cmd/sluice/config/configtest", true},
		{"cmd/sluice/inject", false, module + "/metrics", false},
		{"cmd/sluice/inject", false, "go.yaml.in/yaml/v3", false},
		{"proxy", false, module + "/reservoir", true},
		{"proxy", false, module + "/proxy/rawconn", true},
		{"proxy", false, module + "/proxy/wire", true},
		{"proxy/wire", false, module + "/proxy", false},
		{"proxy/wire", false, module + "/retry", false},
		{"proxy/startup", false, module + "/reservoir", false},
		{"proxy", false, module + "/lease", false},
		{"reservoir", false, module + "/proxy", false},
		{"reservoir", false, module + "/proxy/rawconn", false},
		{"reservoir", true, module + "/proxy", false},
		{"rewrite", false, module + "/metrics", false},
		{"proxy", true, module + "/proxy", true},
		{"proxy", true, module + "/integration/pgtest", true},
		{"proxy", false, module + "/integration/pgtest", false},
		{"integration/dsqlsim", false, module + "/integration/child", true},
		{"integration/dsqlsim", false, module + "/rewrite", false},
		{"integration/dsqlsim", false, "github.com/anything/else", true},
		{"cmd/dsqlsim", false, module + "/metrics", false},
		{"proxy", false, "net/http", true},
		{"proxy", false, "github.com/jackc/pgx/v5/pgproto3", true},
		{"proxy", false, "github.com/jackc/pgx/v5/pgconn", false},
		{"proxy", true, "github.com/jackc/pgx/v5/pgconn", true},
		{"proxy", false, "github.com/lib/pq", false},
		{"metrics", false, "github.com/prometheus/client_golang/prometheus", true},
		{"cmd/sluice/daemon", false, "github.com/prometheus/client_golang/prometheus", false},
		{"cmd/sluice/daemon", false, "github.com/prometheus/client_golang/prometheus/promhttp", true},
		{"retry", false, "github.com/new/thing", false},
	} {
		if why := forbidden(test.dir, test.test, test.imported); (why == "") != test.allowed {
			t.Errorf("%s (test: %v) imports %s: %q, want allowed: %v", test.dir, test.test, test.imported, why, test.allowed)
		}
	}
}

func TestPlaced(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]bool{
		"proxy": true, "proxy/wire": true, "metrics": true, "reservoir/fleetsim": true,
		"integration/pgtest": true, "integration/dsqlsim/occ": true, "cmd/dsqlsim": true,
		"proxy/new": false, "proxy/wire/new": false, "helpers": false, "cmd/new": false, "cmd/dsqlsim/new": false, ".": false,
	} {
		if placed(dir) != want {
			t.Errorf("%s is in the layout: %v, want %v", dir, !want, want)
		}
	}
}

// The layers have an order: no two packages may import each other, by whatever way.
func TestLayersHaveNoCircle(t *testing.T) {
	t.Parallel()
	if got := unordered(layers); got != nil {
		t.Errorf("%q: in a circle of layers, or above one, or above what layers does not list", got)
	}
	for _, test := range []struct {
		layers map[string][]string
		want   []string
	}{
		{map[string][]string{"a": {"b", "c"}, "b": {"c"}, "c": {}}, nil},
		{map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {}}, []string{"a", "b", "c"}},
		{map[string][]string{"a": {"a"}, "b": {}}, []string{"a"}},
		{map[string][]string{"a": {"b"}}, []string{"a"}},
	} {
		if got := unordered(test.layers); !slices.Equal(got, test.want) {
			t.Errorf("%v: %q, want %q", test.layers, got, test.want)
		}
	}
}

// unordered returns the packages that cannot be put above all that they may import.
func unordered(layers map[string][]string) (left []string) {
	ordered := map[string]bool{}
	for more := true; more; {
		more, left = false, nil
		for p, below := range layers {
			if ordered[p] {
				continue
			}
			if slices.ContainsFunc(below, func(b string) bool { return !ordered[b] }) {
				left = append(left, p)
				continue
			}
			ordered[p], more = true, true
		}
	}
	slices.Sort(left)
	return left
}

// readEnvironment are the packages that may: configtest restores what a test changes.
var readEnvironment = []string{"cmd/sluice/config", "cmd/sluice/config/configtest", "cmd/sluice/daemon"}

// environmentReaders are the functions by which a program learns of its
// environment.
var environmentReaders = []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}

func TestOnlyCmdReadsTheEnvironment(t *testing.T) {
	t.Parallel()
	for _, file := range sourceFiles(t) {
		if file.test || !isProduct(file.dir) || slices.Contains(readEnvironment, file.dir) {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok && slices.Contains(environmentReaders, call.Sel.Name) {
				if pkg, ok := call.X.(*ast.Ident); ok && (pkg.Name == "os" || pkg.Name == "syscall") {
					t.Errorf("%s calls %s.%s: %s read the environment", file.name, pkg.Name, call.Sel.Name, strings.Join(readEnvironment, " and "))
				}
			}
			return true
		})
	}
}
