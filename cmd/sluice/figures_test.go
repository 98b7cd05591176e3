package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	gobuild "go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// limits holds what each product package may have at most. figuresFile lists a package
// that exceeds one, and its figure there may only fall.
var limits = map[string]int{
	"files":     28,   // without tests
	"lines":     5500, // of these files
	"methods":   45,   // of one type
	"fields":    28,   // of one struct, those of embedded structs of this module counted; not of a Config
	"recursive": 12,   // functions that call each other in a circle
	"exported":  60,   // names, of a package below proxy
}

// figuresFile lists the figures above their limits: package, figure, value, and where it is.
var figuresFile = filepath.Join("testdata", "figures.txt")

// slack is the part of a listed figure by which its owner may be below it without a new list, one in so many.
const slack = 20

var update = flag.Bool("update", false, "write the list of figures above the limits")

// TestFigures holds the product packages to the limits. Where it fails, go test ./cmd/sluice -run TestFigures
// -update writes the list: a figure that rises there is a decision that the diff shows.
func TestFigures(t *testing.T) {
	t.Parallel()
	got := map[string]figure{}
	for _, p := range productPackages(t) {
		for name := range limits {
			got[p.dir+" "+name] = p.figure(name)
		}
	}
	ratchet(t, figuresFile, got, limits)
}

// ratchet compares figures with their limits and with a list of those above their limit, which -update writes.
// A figure is named by its owner, a space, and the name of its limit.
func ratchet(t *testing.T, file string, got map[string]figure, limits map[string]int) {
	t.Helper()
	limit := func(name string) int { return limits[strings.Fields(name)[1]] }
	maps.DeleteFunc(got, func(name string, f figure) bool { return f.value <= limit(name) })
	if *update {
		writeFigures(t, file, got)
	}
	listed := listedFigures(t, file)
	for name, f := range got {
		if f.value > listed[name] {
			t.Errorf("%s: %d %s, limit %d, listed %d", name, f.value, f.where, limit(name), listed[name])
		}
	}
	for name, most := range listed {
		if value := got[name].value; value < most-most/slack {
			t.Errorf("%s: %d is listed, it is %d: -update lists it", name, most, value)
		}
	}
}

func writeFigures(t *testing.T, file string, got map[string]figure) {
	t.Helper()
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(got)) {
		fmt.Fprintln(&list, strings.TrimSpace(fmt.Sprintf("%s %d %s", name, got[name].value, got[name].where)))
	}
	if err := os.WriteFile(file, []byte(list.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func listedFigures(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 {
			listed[f[0]+" "+f[1]], err = strconv.Atoi(f[2])
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	return listed
}

// figure is a package's greatest value of a kind, and the type or function that has it.
type figure struct {
	value int
	where string
}

// checked is a package with its types.
type checked struct {
	dir   string // such as proxy/wire
	files []sourceFile
	pkg   *types.Package
	info  *types.Info
}

func (p *checked) figure(name string) figure {
	switch name {
	case "files":
		return figure{len(p.files), ""}
	case "lines":
		n := 0
		for _, file := range p.files {
			n += bytes.Count(file.text, []byte("\n"))
		}
		return figure{n, ""}
	case "methods":
		return p.ofTypes(func(t *types.Named) int { return t.NumMethods() })
	case "fields":
		return p.ofTypes(func(t *types.Named) int {
			if strings.HasSuffix(t.Obj().Name(), "Config") {
				return 0
			}
			return flattened(t, map[types.Type]bool{})
		})
	case "recursive":
		return p.recursive()
	}
	return p.exported()
}

// ofTypes returns the greatest value of a type that the package declares.
func (p *checked) ofTypes(value func(*types.Named) int) (most figure) {
	for _, name := range p.pkg.Scope().Names() {
		object, ok := p.pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok || object.IsAlias() {
			continue
		}
		if named, ok := object.Type().(*types.Named); ok {
			if n := value(named); n > most.value {
				most = figure{n, name}
			}
		}
	}
	return most
}

// flattened counts the fields of a struct; an embedded struct of this module counts as its fields.
func flattened(t types.Type, seen map[types.Type]bool) (n int) {
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	of, ok := t.Underlying().(*types.Struct)
	if !ok || seen[t] {
		return 0
	}
	seen[t] = true
	for f := range of.Fields() {
		inner := 0
		if f.Embedded() && (f.Pkg() == nil || strings.HasPrefix(f.Pkg().Path(), module)) {
			inner = flattened(f.Type(), seen)
		}
		n += max(1, inner)
	}
	return n
}

// exported counts the exported names of a package below proxy: of the package, and methods of its types.
func (p *checked) exported() figure {
	if !strings.HasPrefix(p.dir, "proxy/") {
		return figure{}
	}
	n := 0
	for _, name := range p.pkg.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		n++
		if named, ok := p.pkg.Scope().Lookup(name).Type().(*types.Named); ok {
			for m := range named.Methods() {
				if m.Exported() {
					n++
				}
			}
		}
	}
	return figure{n, ""}
}

// recursive returns the size of the largest group of functions each of which can reach every other, by the
// names that they use. One function is no group.
func (p *checked) recursive() (most figure) {
	calls := map[types.Object][]types.Object{}
	for _, file := range p.files {
		for _, decl := range file.syntax.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			from := p.info.Defs[f.Name]
			calls[from] = nil
			ast.Inspect(f, func(n ast.Node) bool {
				if name, ok := n.(*ast.Ident); ok {
					if to, ok := p.info.Uses[name].(*types.Func); ok && to.Pkg() == p.pkg {
						calls[from] = append(calls[from], to.Origin())
					}
				}
				return true
			})
		}
	}
	for _, group := range circles(calls) {
		if len(group) > 1 && len(group) > most.value {
			first := slices.MinFunc(group, func(a, b types.Object) int { return int(a.Pos() - b.Pos()) })
			most = figure{len(group), "around " + first.Name()}
		}
	}
	return most
}

// circles returns the strongly connected components of a graph (Tarjan's algorithm).
func circles[N comparable](to map[N][]N) (all [][]N) {
	index, low, on := map[N]int{}, map[N]int{}, map[N]bool{}
	var stack []N
	var visit func(N)
	visit = func(n N) {
		index[n], low[n] = len(index)+1, len(index)+1
		stack, on[n] = append(stack, n), true
		for _, m := range to[n] {
			if index[m] == 0 {
				visit(m)
				low[n] = min(low[n], low[m])
			} else if on[m] {
				low[n] = min(low[n], index[m])
			}
		}
		if low[n] != index[n] {
			return
		}
		at := slices.Index(stack, n)
		for _, m := range stack[at:] {
			on[m] = false
		}
		all, stack = append(all, slices.Clone(stack[at:])), stack[:at]
	}
	for n := range to {
		if index[n] == 0 {
			visit(n)
		}
	}
	return all
}

// productPackages returns the product's packages with their types, in the order of their names.
func productPackages(t *testing.T) (all []*checked) {
	t.Helper()
	byDir := map[string][]sourceFile{}
	for _, file := range sourceFiles(t) {
		if !file.test && isProduct(file.dir) && file.built() {
			byDir[file.dir] = append(byDir[file.dir], file)
		}
	}
	imports := importerOf(t)
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		p := &checked{dir: dir, files: byDir[dir], info: &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}}
		fset := token.NewFileSet()
		var syntax []*ast.File
		for i, file := range p.files {
			parsed, err := parser.ParseFile(fset, file.name, file.text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			p.files[i].syntax, syntax = parsed, append(syntax, parsed) // a copy: others share the file
		}
		var err error
		config := types.Config{Importer: imports}
		if p.pkg, err = config.Check(module+"/"+dir, fset, syntax, p.info); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// built reports whether the file is of a build for this machine.
func (f sourceFile) built() bool {
	matches, err := gobuild.Default.MatchFile(filepath.Join("..", "..", f.dir), path.Base(f.name))
	return err == nil && matches
}

// importerOf returns an importer of all packages that the product imports, by what the compiler exported of them.
func importerOf(t *testing.T) types.Importer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", "./cmd/...", "./proxy/...", "./reservoir/...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		exports[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}

func TestCircles(t *testing.T) {
	t.Parallel()
	got := circles(map[string][]string{"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"d"}, "e": {"a"}})
	sizes := []int{}
	for _, group := range got {
		sizes = append(sizes, len(group))
	}
	if slices.Sort(sizes); !slices.Equal(sizes, []int{1, 1, 3}) {
		t.Errorf("groups of %v, want of 1, 1 and 3", sizes)
	}
}
