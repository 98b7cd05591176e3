package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sluice-proxy/sluice"

// layers says what of ours each product package may import: packages below it
// only. A folder below one of these may import what its owner may.
var layers = map[string][]string{
	"cmd/sluice":     {"proxy", "proxy/startup", "proxy/rawconn", "reservoir", "lease", "rewrite", "retry", "metrics"},
	"proxy":          {"proxy/startup", "proxy/settings", "proxy/wire", "proxy/rawconn", "reservoir", "retry", "rewrite", "metrics"},
	"proxy/startup":  {"proxy/wire", "proxy/rawconn"},
	"proxy/settings": {"proxy/wire", "retry", "rewrite"},
	"proxy/wire":     {"proxy/rawconn"},
	"proxy/rawconn":  {},
	"reservoir":      {"lease", "metrics"},
	"lease":          {"metrics"},
	"rewrite":        {},
	"retry":          {},
	"metrics":        {},
}

// doors says which product package may import a third-party package; the longest
// matching path counts. One door each; aws is the exception: its types are how
// cmd hands credentials down.
var doors = map[string][]string{
	"github.com/spf13/viper": {"cmd/sluice"},
	"github.com/spf13/cobra": {"cmd/sluice"},
	"github.com/spf13/pflag": {"cmd/sluice"}, // cobra's and viper's flags

	"github.com/aws/aws-sdk-go-v2/config":            {"cmd/sluice"},
	"github.com/aws/aws-sdk-go-v2/aws":               {"cmd/sluice", "reservoir", "lease"},
	"github.com/aws/aws-sdk-go-v2/feature/dsql/auth": {"reservoir"},
	"github.com/aws/aws-sdk-go-v2/service/dynamodb":  {"lease"},

	"github.com/jackc/pgx/v5/pgproto3": {"proxy", "proxy/startup", "proxy/wire"},
	"github.com/jackc/pgx/v5/pgconn":   {"reservoir"},
	"github.com/xdg-go/scram":          {"proxy/startup"},
	"golang.org/x/time/rate":           {"reservoir"},
	"golang.org/x/sys/unix":            {"lease"}, // a clock that goes on while the machine sleeps

	"github.com/pganalyze/pg_query_go/v6": {"rewrite"},
	"google.golang.org/protobuf":          {"rewrite"}, // the parser's trees

	"github.com/prometheus/client_golang": {"metrics"},
	// Serving the registry over HTTP is the admin listener's business.
	"github.com/prometheus/client_golang/prometheus/promhttp": {"cmd/sluice"},
	"github.com/prometheus/client_model":                      {"metrics"},
}

// testOnly may be imported by any test, and by nothing else.
var testOnly = []string{
	"github.com/lib/pq", "github.com/jackc/pgx/v5", "pgregory.net/rapid", "go.uber.org/goleak",
	"github.com/prometheus/client_golang/prometheus/testutil",
}

// A sourceFile is one Go file of the module.
type sourceFile struct {
	name    string // path from the module's root
	dir     string // of the package, with slashes
	test    bool
	syntax  *ast.File
	imports []string
}

func sourceFiles(t *testing.T) []sourceFile {
	t.Helper()
	root := filepath.Join("..", "..")
	var files []sourceFile
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, otherModule := os.Stat(filepath.Join(name, "go.mod"))
			hidden := strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".."
			if name != root && (hidden || entry.Name() == "testdata" || otherModule == nil) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		file := sourceFile{name: rel, dir: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"), syntax: syntax}
		for _, spec := range syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			file.imports = append(file.imports, imported)
		}
		files = append(files, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestImportRules(t *testing.T) {
	t.Parallel()
	files := sourceFiles(t)
	if len(files) < 50 {
		t.Fatalf("only %d files found: the walk is broken", len(files))
	}
	for _, file := range files {
		for _, imported := range file.imports {
			if why := forbidden(file.dir, file.test, imported); why != "" {
				t.Errorf("%s imports %s: %s", file.name, imported, why)
			}
		}
	}
}

// forbidden says why a file of the package in dir may not import a package, or "".
func forbidden(dir string, test bool, imported string) string {
	owner := ownerOf(dir)
	own, isOwn := strings.CutPrefix(imported, module+"/")
	switch {
	case owner == "":
		if isOwn && ownerOf(own) != "" {
			return "what tests the product from outside must not share its code"
		}
		if !strings.HasPrefix(dir, "integration/") && dir != "cmd/dsqlsim" {
			return "the folder " + dir + " is not in the layout"
		}
		return ""
	case isOwn && test && (own == dir || strings.HasPrefix(own, "integration/")):
		return ""
	case isOwn && !slices.Contains(layers[owner], own):
		return "imports point downward only: " + owner + " may import " + strings.Join(layers[owner], ", ")
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
	case !slices.Contains(doors[door], owner):
		return "its door is " + strings.Join(doors[door], ", ")
	}
	return ""
}

// ownerOf is the product package that a folder belongs to, or "".
func ownerOf(dir string) (owner string) {
	for p := range layers {
		if within(dir, p) && len(p) > len(owner) { // the innermost
			owner = p
		}
	}
	return owner
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
		{"cmd/sluice", false, module + "/proxy", true},
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
		{"helpers", false, "fmt", false},
		{"proxy", false, "net/http", true},
		{"proxy", false, "github.com/jackc/pgx/v5/pgproto3", true},
		{"proxy", false, "github.com/jackc/pgx/v5/pgconn", false},
		{"proxy", true, "github.com/jackc/pgx/v5/pgconn", true},
		{"proxy", false, "github.com/lib/pq", false},
		{"metrics", false, "github.com/prometheus/client_golang/prometheus", true},
		{"cmd/sluice", false, "github.com/prometheus/client_golang/prometheus", false},
		{"cmd/sluice", false, "github.com/prometheus/client_golang/prometheus/promhttp", true},
		{"retry", false, "github.com/new/thing", false},
	} {
		if why := forbidden(test.dir, test.test, test.imported); (why == "") != test.allowed {
			t.Errorf("%s (test: %v) imports %s: %q, want allowed: %v", test.dir, test.test, test.imported, why, test.allowed)
		}
	}
}

// environmentReaders are the functions by which a program learns of its
// environment.
var environmentReaders = []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}

func TestOnlyCmdReadsTheEnvironment(t *testing.T) {
	t.Parallel()
	for _, file := range sourceFiles(t) {
		owner := ownerOf(file.dir)
		if file.test || owner == "" || owner == "cmd/sluice" {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok && slices.Contains(environmentReaders, call.Sel.Name) {
				if pkg, ok := call.X.(*ast.Ident); ok && (pkg.Name == "os" || pkg.Name == "syscall") {
					t.Errorf("%s calls %s.%s: only cmd/sluice reads the environment", file.name, pkg.Name, call.Sel.Name)
				}
			}
			return true
		})
	}
}
