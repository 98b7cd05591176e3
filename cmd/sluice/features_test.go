package main

import (
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// features are the features of package proxy that still have code in it: their files, the fields with their state, and
// their packages.
var features = map[string]struct{ files, fields, packages []string }{
	"advisory": {[]string{"lockcall.go", "lockdatabase.go", "lockfence.go", "locks.go"}, []string{"advisory"}, []string{"advisory", "locktable"}},
	"batch":    {[]string{"largedelete.go"}, nil, []string{"batch"}},
	"cursor":   {[]string{"cursor.go", "cursorextended.go", "stored.go", "storedreading.go"}, []string{"stored"}, []string{"cursor", "stored"}},
	"ddl":      {[]string{"databaseddl.go", "indexwait.go"}, nil, []string{"ddl", "database"}},
	"ddltx":    {[]string{"parts.go", "partruns.go", "parttime.go"}, []string{"parts"}, []string{"ddltx"}},
	"sequence": {[]string{"sequences.go"}, []string{"sequences"}, []string{"sequence"}},
	"copyin":   {nil, nil, []string{"copyin", "copyrows"}},
}

// featureTables are the files of package proxy that list features.
var featureTables = []string{"observers.go", "handlers.go"}

// namesFile lists the names of a feature that the core of package proxy uses, by file.
var namesFile = filepath.Join("testdata", "features.txt")

// TestCoreNamesNoFeature counts where package proxy uses a name of a feature outside of the feature's own files and the
// tables of features. The counts may only fall; -update writes the list.
func TestCoreNamesNoFeature(t *testing.T) {
	t.Parallel()
	all := productPackages(t)
	p := all[slices.IndexFunc(all, func(p *checked) bool { return p.dir == "proxy" })]
	owner := map[types.Object]string{}
	home := map[string]string{} // file to feature
	for name, f := range features {
		for _, file := range f.files {
			home[file] = name
		}
		for _, file := range p.files {
			base := path.Base(file.name)
			if home[base] != name && base != "session.go" && base != "backend.go" {
				continue
			}
			for id, object := range p.info.Defs {
				if object == nil || id.Pos() < file.syntax.FileStart || id.Pos() >= file.syntax.FileEnd {
					continue
				}
				field, isField := object.(*types.Var)
				switch isField = isField && field.IsField(); {
				case isField && slices.Contains(f.fields, object.Name()):
					owner[object] = name
				case home[base] == name && (object.Parent() == p.pkg.Scope() || isField || isMethod(object)):
					owner[object] = name
				}
			}
		}
	}
	uses := map[string]map[string]bool{}
	for _, file := range p.files {
		base := path.Base(file.name)
		if slices.Contains(featureTables, base) {
			continue
		}
		for id, object := range p.info.Uses {
			if id.Pos() < file.syntax.FileStart || id.Pos() >= file.syntax.FileEnd {
				continue
			}
			name := owner[object]
			if object.Pkg() != nil {
				if dir, ok := strings.CutPrefix(object.Pkg().Path(), module+"/proxy/"); ok && object.Parent() == object.Pkg().Scope() {
					name = featureOfPackage(dir)
				}
			}
			if name != "" && home[base] != name {
				if uses[name] == nil {
					uses[name] = map[string]bool{}
				}
				uses[name][base+":"+id.Name] = true
			}
		}
	}
	got := map[string]figure{}
	for name, where := range uses {
		got[name+" names"] = figure{len(where), strings.Join(slices.Sorted(maps.Keys(where)), " ")}
	}
	ratchet(t, namesFile, got, map[string]int{"names": 0})
}

func isMethod(object types.Object) bool {
	f, ok := object.(*types.Func)
	return ok && f.Signature().Recv() != nil
}

func featureOfPackage(dir string) string {
	for name, f := range features {
		if slices.Contains(f.packages, dir) {
			return name
		}
	}
	return ""
}
