package database_test

import (
	"testing"

	"github.com/sluice-proxy/sluice/proxy/database"
)

// Each name has the meaning of its item, or of a prefix; without items every name has one.
func TestFind(t *testing.T) {
	t.Parallel()
	type meaning = database.Target
	listed := []string{"app", "web=postgres", "a=schema:x", "t_*=schema:*", "t_own=schema:other"}
	for _, c := range []struct {
		items     []string
		dedicated bool
		name      string
		want      meaning
		ok        bool
	}{
		{nil, false, "whatever", meaning{Database: "whatever"}, true},
		{listed, false, "app", meaning{Database: "postgres"}, true},
		{listed, false, "web", meaning{Database: "postgres"}, true},
		{listed, false, "a", meaning{"postgres", "x"}, true},
		{listed, false, "t_1", meaning{"postgres", "t_1"}, true},
		{listed, false, "t_own", meaning{"postgres", "other"}, true},
		{listed, false, "t_é", meaning{Database: "t_é"}, false},
		{listed, false, "other", meaning{Database: "other"}, false},
		{[]string{"app=names", "postgres"}, true, "app", meaning{Database: "names"}, true},
		{[]string{"app=names", "postgres"}, true, "postgres", meaning{Database: "postgres"}, true},
		{[]string{"app=names"}, true, "names", meaning{Database: "names"}, false},
	} {
		names, err := database.New(c.items, "postgres", c.dedicated)
		if err != nil {
			t.Errorf("%q: %v", c.items, err)
			continue
		}
		if got, ok := names.Resolve(c.name); got != c.want || ok != c.ok {
			t.Errorf("%q, %s: %+v, %v, want %+v, %v", c.items, c.name, got, ok, c.want, c.ok)
		}
		if schema, ok := names.SchemaOf(c.name); schema != c.want.Schema || ok != (c.want.Schema != "") {
			t.Errorf("%q, %s: schema %q, %v", c.items, c.name, schema, ok)
		}
	}
}

// HasSchemas is true if any item, or a prefix, stands for a schema.
func TestHasSchemas(t *testing.T) {
	t.Parallel()
	for item, want := range map[string]bool{"app": false, "a=schema:x": true, "t_*=schema:*": true} {
		names, err := database.New([]string{item}, "postgres", false)
		if err != nil || names.HasSchemas() != want {
			t.Errorf("%s: %v, %v", item, names.HasSchemas(), err)
		}
	}
}
