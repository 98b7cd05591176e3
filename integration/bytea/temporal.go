package bytea

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// namedText is a statement of Temporal, with its name in Temporal's source.
type namedText struct{ name, text string }

// temporalModule returns the directory of Temporal's source. The source is the Temporal module that the module in
// directory moduleOf requires. If necessary temporalModule downloads it. The statements are unexported constants, so
// the test reads the source.
func temporalModule(moduleOf string) (string, error) {
	download := exec.Command("go", "mod", "download", "-json", "go.temporal.io/server")
	download.Dir = moduleOf
	out, err := download.Output()
	var module struct{ Dir, Error string }
	if err = errors.Join(err, json.Unmarshal(out, &module)); err != nil || module.Dir == "" {
		return "", fmt.Errorf("%v: %s: %w", download.Args, module.Error, err)
	}
	return module.Dir, nil
}

// temporalSchema returns the statements that create the schema of a new installation of Temporal.
func temporalSchema(module string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(module, "schema/postgresql/v12/temporal/schema.sql"))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, s := range strings.Split(regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(string(text), ""), ";") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all, nil
}

// temporalTexts returns the statements that Temporal's plugin for PostgreSQL sends.
func temporalTexts(module string) ([]namedText, error) {
	e := constEvaluator{declared: map[string]ast.Expr{}, known: map[string]any{}}
	folder := filepath.Join(module, "common/persistence/sql/sqlplugin/postgresql")
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if name := filepath.Base(file); strings.HasPrefix(name, "visibility") || strings.HasPrefix(name, "query_converter") || name == "plugin.go" || name == "admin.go" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return nil, err
		}
		e.addDeclarations(parsed)
	}
	var all []namedText
	for _, name := range slices.Sorted(keysIterator(e.declared)) {
		text, ok := e.valueOfName(name).(string)
		if ok && statementStart.MatchString(text) && !strings.Contains(text, "%") {
			all = append(all, textVariants(namedText{name, text}, e)...)
		}
	}
	return all, nil
}

func keysIterator[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

var statementStart = regexp.MustCompile(`(?is)^\s*(SELECT|INSERT|UPDATE|DELETE)\s`)

// constEvaluator evaluates the declarations of a Go package that define statements.
type constEvaluator struct {
	declared map[string]ast.Expr
	known    map[string]any
}

func (e constEvaluator) addDeclarations(file *ast.File) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			if v, ok := s.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
				for i, n := range v.Names {
					e.declared[n.Name] = v.Values[i]
				}
			}
		}
	}
}

// valueOfName returns the value of a declared name: a string, a []string, or nil.
func (e constEvaluator) valueOfName(name string) any {
	if _, ok := e.known[name]; !ok {
		e.known[name] = nil
		if x, ok := e.declared[name]; ok {
			e.known[name] = e.evalExpr(x)
		}
	}
	return e.known[name]
}

func (e constEvaluator) evalExpr(x ast.Expr) any {
	switch x := x.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING {
			return text
		}
	case *ast.Ident:
		return e.valueOfName(x.Name)
	case *ast.BinaryExpr:
		a, okA := e.evalExpr(x.X).(string)
		b, okB := e.evalExpr(x.Y).(string)
		if okA && okB && x.Op == token.ADD {
			return a + b
		}
	case *ast.CompositeLit:
		var all []string
		for _, item := range x.Elts {
			if text, ok := e.evalExpr(item).(string); ok {
				all = append(all, text)
			}
		}
		return all
	case *ast.CallExpr:
		return e.evalCall(x)
	}
	return nil
}

// evalCall evaluates a call of one of the plugin's functions, which build statements from templates.
func (e constEvaluator) evalCall(x *ast.CallExpr) any {
	f, ok := x.Fun.(*ast.Ident)
	if !ok {
		return nil
	}
	var table, key string
	var columns []string
	for i, a := range x.Args {
		switch v := e.evalExpr(a).(type) {
		case string:
			if i == 0 {
				table = v
			} else {
				key = v
			}
		case []string:
			columns = v
		}
	}
	with := func(prefix string) string {
		var all []string
		for _, c := range columns {
			all = append(all, prefix+c)
		}
		return strings.Join(all, ",")
	}
	template := func(name string) string { t, _ := e.valueOfName(name).(string); return t }
	switch f.Name {
	case "makeDeleteMapQry":
		return fmt.Sprintf(template("deleteMapQueryTemplate"), table)
	case "makeSetKeyInMapQry":
		return fmt.Sprintf(template("setKeyInMapQueryTemplate"), table, with(""), with(":"), key, with("excluded."))
	case "makeDeleteKeyInMapQry":
		return fmt.Sprintf(template("deleteKeyInMapQueryTemplate"), table, key)
	case "makeGetMapQryTemplate":
		return fmt.Sprintf(template("getMapQueryTemplate"), table, key, with(""))
	}
	return nil
}

// textVariants returns the forms in which Temporal's plugin for PostgreSQL sends a statement. A statement with a list
// of rows or items has forms with one and with three of them. Placeholders are replaced by numbered parameters.
func textVariants(n namedText, e constEvaluator) []namedText {
	switch {
	case strings.HasSuffix(n.text, "$"):
		return membershipVariants(n, e)
	case strings.HasSuffix(strings.TrimSpace(n.text), " VALUES"):
		n.text += " (:a, :b, :c)"
	case strings.HasSuffix(n.text, "IN ("):
		return []namedText{{n.name, n.text + "$3)"}, {n.name + " of three", n.text + "$3, $4, $5)"}}
	}
	texts := []namedText{n}
	if strings.Contains(n.text, "task_queues_v2") {
		texts = append(texts, namedText{n.name + " v1", strings.ReplaceAll(n.text, "task_queues_v2", "task_queues")})
	}
	var all []namedText
	for _, t := range texts {
		all = append(all, namedText{t.name, numberParameters(t.text)})
		if rows := tripleRows(t.text); rows != t.text {
			all = append(all, namedText{t.name + " of three", numberParameters(rows)})
		}
	}
	return all
}

var (
	placeholder = regexp.MustCompile(`:[a-z_]+|\?`)
	valuesList  = regexp.MustCompile(`(?is)(VALUES\s*)(\([^()]*:[^()]*\))`)
)

// numberParameters replaces placeholders by the numbered parameters of the wire protocol.
func numberParameters(text string) string {
	n := 0
	return placeholder.ReplaceAllStringFunc(text, func(string) string {
		n++
		return fmt.Sprintf("$%d", n)
	})
}

func tripleRows(text string) string {
	text = strings.ReplaceAll(text, "( ? )", "( ?, ?, ? )")
	return valuesList.ReplaceAllString(text, "$1$2, $2, $2")
}

// membershipVariants returns the queries for members of Temporal's cluster: one with all conditions, and one with
// each condition alone.
func membershipVariants(n namedText, e constEvaluator) []namedText {
	suffix := func(name string) string { t, _ := e.valueOfName(name).(string); return t }
	conditions := []string{"templateWithHostIDSuffix", "templateWithRPCAddressSuffix", "templateWithRoleSuffix", "templateWithHeartbeatSinceSuffix",
		"templateWithRecordExpirySuffix", "templateWithSessionStartSuffix", "templateWithHostIDGreaterSuffix"}
	build := func(name string, of ...string) namedText {
		text, k := n.text+"1", 1
		for _, c := range of {
			k++
			text += suffix(c) + strconv.Itoa(k)
		}
		text += suffix("templateWithOrderBySessionStartSuffix") + suffix("templateWithLimitSuffix") + strconv.Itoa(k+1)
		return namedText{n.name + " " + name, text}
	}
	all := []namedText{build("all", conditions...)}
	for _, c := range conditions {
		all = append(all, build(c, c))
	}
	return all
}
