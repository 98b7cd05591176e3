package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// What a function may have at most. A function literal counts as part of the
// function that it stands in; one of a package's variable counts by itself.
const (
	mostLines      = 60 // from func to the closing brace, both included
	mostComplexity = 20 // 1, and 1 for each if, for, case, && and ||
)

// exempt are functions that may exceed the limits, with the reason. Each is one
// table or one switch, which would be harder to read in pieces.
var exempt = map[string]string{}

// Functions outside tests stay within the limits, and no list names one that does.
func TestSizeOfFunctions(t *testing.T) {
	t.Parallel()
	exceeding := map[string]bool{}
	for _, file := range sourceFiles(t) {
		if file.test || ast.IsGenerated(file.syntax) {
			continue
		}
		for _, f := range functions(file) {
			why := f.excess()
			if why == "" {
				continue
			}
			exceeding[f.name] = true
			if exempt[f.name] == "" {
				t.Errorf("%s: %s has %s", file.name, f.name, why)
			}
		}
	}
	for name := range exempt {
		if !exceeding[name] {
			t.Errorf("%s need not be in exempt", name)
		}
	}
}

// A function is what the limits are about.
type function struct {
	name              string // such as proxy.session.run
	lines, complexity int
}

// excess says by how much f exceeds the limits, or "".
func (f function) excess() string {
	var over []string
	if f.lines > mostLines {
		over = append(over, fmt.Sprintf("%d lines, at most %d are allowed", f.lines, mostLines))
	}
	if f.complexity > mostComplexity {
		over = append(over, fmt.Sprintf("a cyclomatic complexity of %d, at most %d is allowed", f.complexity, mostComplexity))
	}
	return strings.Join(over, "; ")
}

// functions measures the functions of a file, and the literals of its variables.
func functions(file sourceFile) (all []function) {
	measure := func(name string, n ast.Node) {
		first, last := file.fset.Position(n.Pos()).Line, file.fset.Position(n.End()).Line
		all = append(all, function{file.dir + "." + name, last - first + 1, complexity(n)})
	}
	for _, decl := range file.syntax.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			measure(receiver(d)+d.Name.Name, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				ast.Inspect(spec, func(n ast.Node) bool {
					literal, ok := n.(*ast.FuncLit)
					if ok {
						measure(spec.(*ast.ValueSpec).Names[0].Name, literal)
					}
					return !ok
				})
			}
		}
	}
	return all
}

// receiver is the name of the type that a method is of with a dot, or "".
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name + "."
		}
	}
}

// complexity is the cyclomatic complexity of n. A default adds nothing: it is the
// way that is left.
func complexity(n ast.Node) int {
	c := 1
	ast.Inspect(n, func(n ast.Node) bool {
		adds := false
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			adds = true
		case *ast.CaseClause:
			adds = n.List != nil
		case *ast.CommClause:
			adds = n.Comm != nil
		case *ast.BinaryExpr:
			adds = n.Op == token.LAND || n.Op == token.LOR
		}
		if adds {
			c++
		}
		return true
	})
	return c
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	lines := func(n int) string { return "func f() {" + strings.Repeat("\n", n-1) + "}" }
	ifs := func(n int) string { return "func f() {" + strings.Repeat("if true {}\n", n) + "}" }
	for _, test := range []struct {
		name, source string
		want         []function
		exceeds      bool
	}{
		{"lines at the limit", lines(mostLines), []function{{"p.f", mostLines, 1}}, false},
		{"lines over it", lines(mostLines + 1), []function{{"p.f", mostLines + 1, 1}}, true},
		{"comment in front", "// f\n// is\n" + lines(3), []function{{"p.f", 3, 1}}, false},
		{"complexity at the limit", ifs(mostComplexity - 1), []function{{"p.f", mostComplexity, mostComplexity}}, false},
		{"complexity over it", ifs(mostComplexity), []function{{"p.f", mostComplexity + 1, mostComplexity + 1}}, true},
		{"if, else", "func f() { if a {} else if b {} else {} }", []function{{"p.f", 1, 3}}, false},
		{"loops", "func f() { for {}; for range a {} }", []function{{"p.f", 1, 3}}, false},
		{"operators", "func f() bool { return a && b || !c && (d || e) }", []function{{"p.f", 1, 5}}, false},
		{"other operators", "func f() int { return a & b | c + d }", []function{{"p.f", 1, 1}}, false},
		{"switch", "func f() { switch a { case 1, 2: case 3: default: } }", []function{{"p.f", 1, 3}}, false},
		{"type switch", "func f() { switch a.(type) { case int: case nil: default: } }", []function{{"p.f", 1, 3}}, false},
		{"select", "func f() { select { case <-a: case b <- 1: default: } }", []function{{"p.f", 1, 3}}, false},
		{"literal inside", "func f() {\n_ = func() { if a {} }\n}", []function{{"p.f", 3, 2}}, false},
		{"literal of a variable", "var v = map[int]func(){\n1: func() {\nif a {}\n},\n2: func() {} }", []function{{"p.v", 3, 2}, {"p.v", 1, 1}}, false},
		{"methods", "func (s s) a() {}\nfunc (*s) b() {}\nfunc (g *g[T]) c() {}\nfunc (g[K, V]) d() {}",
			[]function{{"p.s.a", 1, 1}, {"p.s.b", 1, 1}, {"p.g.c", 1, 1}, {"p.g.d", 1, 1}}, false},
		{"no body", "func f()", []function{{"p.f", 1, 1}}, false},
		{"none", "type f func()\nvar v = 1 + 1", nil, false},
	} {
		file, err := parseSource("p/p.go", []byte("package p\n"+test.source))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		got := functions(file)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
		if exceeds := slices.ContainsFunc(got, func(f function) bool { return f.excess() != "" }); exceeds != test.exceeds {
			t.Errorf("%s: exceeds the limits: %v, want %v", test.name, exceeds, test.exceeds)
		}
	}
}
