package proxy

import (
	"fmt"
	"strings"
)

// This file is the part of the step accept that judges database names. New and
// Config.Validate make the table of listen.databases, and openSession looks names up.

// databases says which database of the backend each name that a client may ask for means.
// Empty: every name is taken, for the one database where backends are shared, else for
// itself.
type databases map[string]string

// newDatabases reads items of the form "name" or "name=database". When backends are shared
// there is one database, only, and no name can mean another. The error quotes the item that
// cannot be, with the configuration's key.
func newDatabases(items []string, only string, dedicated bool) (databases, error) {
	d := databases{}
	for _, item := range items {
		name, meant, mapped := strings.Cut(item, "=")
		if !mapped {
			meant = only
			if dedicated {
				meant = name
			}
		}
		switch {
		case name == "" || meant == "":
			return nil, fmt.Errorf("listen.databases: %q: want a name, or name=database", item)
		case !dedicated && meant != only:
			return nil, fmt.Errorf("listen.databases: %q: every backend is connected to %q (backend.database): "+
				"only backend.kind postgres with pairing session can map a name to another", item, only)
		case d[name] != "" && d[name] != meant:
			return nil, fmt.Errorf("listen.databases: %q: the name is there twice", item)
		}
		d[name] = meant
	}
	return d, nil
}

// find returns the database that a client's name means; ok is false if none. The client is
// then refused with 3D000.
func (d databases) find(name string) (database string, ok bool) {
	if len(d) == 0 {
		return name, true
	}
	database, ok = d[name]
	return database, ok
}
