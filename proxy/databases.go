package proxy

import (
	"fmt"
	"strings"
)

// This file is the part of the step accept that judges database names. New and
// Config.Validate make the table of listen.databases, and openSession looks names up. What
// becomes of a name that stands for a schema is in schemaname.go and schemaddl.go.

// databases says what each name that a client may ask for means. Without items every name is
// taken, for the one database where backends are shared, else for itself.
type databases struct {
	named    map[string]meaning
	prefixes []string // of names that stand for the schema of the same name
	only     string   // the database of every backend, where they are shared
}

// meaning is what a name means: a database of the backend, or a schema in the one database.
type meaning struct{ database, schema string }

// schemaWord begins, in an item, what a name means that stands for a schema; wildcard ends a
// name that stands for all that begin with it, and is what those mean.
const (
	schemaWord = "schema:"
	wildcard   = "*"
)

// newDatabases reads items of the forms "name", "name=database", "name=schema:schema" and
// "prefix*=schema:*". When backends are shared there is one database, only, and no name can
// mean another; when they are not, none can mean a schema. The error quotes the item that
// cannot be, with the configuration's key.
func newDatabases(items []string, only string, dedicated bool) (databases, error) {
	d := databases{named: map[string]meaning{}, only: only}
	for _, item := range items {
		name, m := d.read(item, dedicated)
		prefix, isPrefix := strings.CutSuffix(name, wildcard)
		isPrefix = isPrefix && m.schema == wildcard && prefix != "" && !strings.Contains(prefix, wildcard)
		was, twice := d.named[name]
		problem := d.refused(name, m, dedicated, isPrefix)
		switch {
		case problem == "" && twice && was != m:
			problem = "the name is there twice"
		case problem == "" && isPrefix:
			d.prefixes = append(d.prefixes, prefix)
			continue
		}
		if problem != "" {
			return databases{}, fmt.Errorf("listen.databases: %q: %s", item, problem)
		}
		d.named[name] = m
	}
	return d, nil
}

// read takes an item apart. A name alone means the database of the backends, or the one of
// its own name where they are not shared.
func (d databases) read(item string, dedicated bool) (name string, m meaning) {
	name, value, mapped := strings.Cut(item, "=")
	schema, isSchema := strings.CutPrefix(value, schemaWord)
	switch {
	case isSchema && schema == "":
		return "", meaning{} // no name that could be mapped
	case isSchema:
		return name, meaning{d.only, schema}
	case !mapped && dedicated:
		return name, meaning{database: name}
	case !mapped:
		return name, meaning{database: d.only}
	}
	return name, meaning{database: value}
}

// refused says why a name cannot mean that; "" if it can. isPrefix: it is a prefix of names
// that each mean a schema of their own.
func (d databases) refused(name string, m meaning, dedicated, isPrefix bool) string {
	isSchema := m.schema != ""
	switch {
	case name == "" || m.database == "":
		return "want a name, name=database, name=schema:<schema> or <prefix>*=schema:*"
	case isSchema && dedicated:
		return "a name stands for a schema only where backends are shared: want name=database with backend.kind postgres and pairing session, or pairing transaction"
	case !dedicated && m.database != d.only:
		return fmt.Sprintf("every backend is connected to %q (backend.database): only backend.kind postgres with pairing session can map a name to another; "+
			"name=schema:<schema> maps it to a schema", d.only)
	case isPrefix:
	case isSchema && (m.schema == wildcard || strings.HasSuffix(name, wildcard)):
		return "want <prefix>*=schema:*, which maps each name that begins with the prefix to the schema of the same name"
	case isSchema && !canBeSchema(m.schema):
		return fmt.Sprintf("schema %q: want 1 to 63 printable ASCII characters, and none of public, sys, information_schema and pg_*", m.schema)
	}
	return ""
}

// find returns what a client's name means; ok is false for a name that means nothing. The
// client is then refused with 3D000. A name of its own goes before a prefix.
func (d databases) find(name string) (m meaning, ok bool) {
	if m, ok = d.named[name]; ok {
		return m, true
	}
	for _, prefix := range d.prefixes {
		if strings.HasPrefix(name, prefix) && canBeSchema(name) {
			return meaning{d.only, name}, true
		}
	}
	return meaning{database: name}, len(d.named)+len(d.prefixes) == 0
}

// schemaOf returns the schema that a name stands for; ok is false for any other name.
func (d databases) schemaOf(name string) (schema string, ok bool) {
	m, _ := d.find(name)
	return m.schema, m.schema != ""
}

// maps reports whether any name stands for a schema.
func (d databases) maps() bool {
	for _, m := range d.named {
		if m.schema != "" {
			return true
		}
	}
	return len(d.prefixes) > 0
}

// canBeSchema reports whether a name may be that of a database that is a schema. Beyond ASCII
// a name would depend on the encoding that its client speaks, and the server's own schemas
// belong to everybody.
func canBeSchema(name string) bool {
	if len(name) == 0 || len(name) > 63 || strings.HasPrefix(name, "pg_") {
		return false
	}
	switch name {
	case "public", "sys", "information_schema":
		return false
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return false
		}
	}
	return true
}
