// Package database decides the meaning of a client's database name: a database of the backend, or a schema in the
// database that all backends share (listen.databases). Names are values, and the package never asks a server.
package database

import (
	"fmt"
	"strings"
)

// Names holds the database names that clients may use. If listen.databases has no items, every name is accepted. In
// that case a name means the shared database if backends are shared, otherwise the database of the same name. The
// zero Names accepts every name as itself.
type Names struct {
	named          map[string]Target
	prefixes       []string // of names that mean the schema of the same name
	sharedDatabase string   // the database of every backend, if backends are shared
}

// Target is the meaning of a client's database name: Database, or Schema in that database if Schema is not empty.
type Target struct{ Database, Schema string }

const (
	// schemaWord is the prefix of an item's value that names a schema.
	schemaWord = "schema:"
	// wildcard at the end of an item's name makes the item match every database name with that prefix. As the schema in
	// the item's value, wildcard means the schema with the database name.
	wildcard = "*"
)

// New parses items of the forms "name", "name=database", "name=schema:schema" and "prefix*=schema:*". If backends are
// shared, only is the name of their database, and no name can mean another database. If each backend serves one client
// (dedicated), no name can mean a schema. The error names the key listen.databases and quotes the item.
func New(items []string, only string, dedicated bool) (Names, error) {
	d := Names{named: map[string]Target{}, sharedDatabase: only}
	for _, item := range items {
		name, m := d.parseItem(item, dedicated)
		prefix, isPrefix := strings.CutSuffix(name, wildcard)
		isPrefix = isPrefix && m.Schema == wildcard && prefix != "" && !strings.Contains(prefix, wildcard)
		was, twice := d.named[name]
		problem := d.problemOf(name, m, dedicated, isPrefix)
		switch {
		case problem == "" && twice && was != m:
			problem = "the name is there twice"
		case problem == "" && isPrefix:
			d.prefixes = append(d.prefixes, prefix)
			continue
		}
		if problem != "" {
			return Names{}, fmt.Errorf("listen.databases: %q: %s", item, problem)
		}
		d.named[name] = m
	}
	return d, nil
}

// parseItem splits an item of listen.databases into a name and its meaning. An item that is a name alone means the
// shared database, or the database of the same name.
func (d Names) parseItem(item string, dedicated bool) (name string, m Target) {
	name, value, mapped := strings.Cut(item, "=")
	schema, isSchema := strings.CutPrefix(value, schemaWord)
	switch {
	case isSchema && schema == "":
		return "", Target{} // no valid name
	case isSchema:
		return name, Target{d.sharedDatabase, schema}
	case !mapped && dedicated:
		return name, Target{Database: name}
	case !mapped:
		return name, Target{Database: d.sharedDatabase}
	}
	return name, Target{Database: value}
}

// problemOf returns the reason why a name cannot have a meaning, or "". isPrefix says that the name is a prefix whose
// names each mean the schema of the same name.
func (d Names) problemOf(name string, m Target, dedicated, isPrefix bool) string {
	isSchema := m.Schema != ""
	switch {
	case name == "" || m.Database == "":
		return "want a name, name=database, name=schema:<schema> or <prefix>*=schema:*"
	case isSchema && dedicated:
		return "a name stands for a schema only where backends are shared: want name=database with backend.kind postgres and pairing session, or pairing transaction"
	case !dedicated && m.Database != d.sharedDatabase:
		return fmt.Sprintf("every backend is connected to %q (backend.database): only backend.kind postgres with pairing session can map a name to another; "+
			"name=schema:<schema> maps it to a schema", d.sharedDatabase)
	case isPrefix:
	case isSchema && (m.Schema == wildcard || strings.HasSuffix(name, wildcard)):
		return "want <prefix>*=schema:*, which maps each name that begins with the prefix to the schema of the same name"
	case isSchema && !canBeSchema(m.Schema):
		return fmt.Sprintf("schema %q: want 1 to 63 printable ASCII characters, and none of public, sys, information_schema and pg_*", m.Schema)
	}
	return ""
}

// Resolve returns the meaning of a client's database name. ok is false if the name has no meaning: the client gets
// 3D000. An item with the name has precedence over a prefix.
func (d Names) Resolve(name string) (m Target, ok bool) {
	if m, ok = d.named[name]; ok {
		return m, true
	}
	for _, prefix := range d.prefixes {
		if strings.HasPrefix(name, prefix) && canBeSchema(name) {
			return Target{d.sharedDatabase, name}, true
		}
	}
	return Target{Database: name}, len(d.named)+len(d.prefixes) == 0
}

// SchemaOf returns the schema that a client's database name means. ok is false if the name means no schema.
func (d Names) SchemaOf(name string) (schema string, ok bool) {
	m, _ := d.Resolve(name)
	return m.Schema, m.Schema != ""
}

// HasSchemas reports whether any database name means a schema.
func (d Names) HasSchemas() bool {
	for _, m := range d.named {
		if m.Schema != "" {
			return true
		}
	}
	return len(d.prefixes) > 0
}

// canBeSchema reports whether a database name may mean a schema. A non-ASCII name would depend on
// client_encoding, and the server's own schemas are not available.
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
