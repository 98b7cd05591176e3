package dialect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// displayed are the names that PostgreSQL shows for its internal type names.
var displayed = map[string]string{
	"int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision",
	"bool": "boolean", "bpchar": "character", "varchar": "character varying", "varbit": "bit varying",
	"time": "time without time zone", "timetz": "time with time zone",
	"timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone",
}

// refusedTypes may not be the type of a column (recorded: type_unsupported_*;
// the rest of each family measured).
var refusedTypes = words("money xml inet cidr macaddr macaddr8 point line lseg box path polygon circle " +
	"tsvector tsquery int4range int8range numrange tsrange tstzrange daterange " +
	"int4multirange int8multirange nummultirange tsmultirange tstzmultirange datemultirange bit varbit pg_lsn")

// serials do not exist (recorded: serial_column, alter_add_column_serial).
var serials = words("serial bigserial smallserial serial2 serial4 serial8")

// keyless may not be in a key (measured).
var keyless = words("bytea jsonb")

func words(s string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

// typeName is the type's internal name without schema.
func typeName(t *pg.TypeName) string {
	if n := len(t.GetNames()); n > 0 {
		return t.Names[n-1].GetString_().GetSval()
	}
	return ""
}

// display is the type's name as PostgreSQL shows it, array brackets included.
func display(t *pg.TypeName) string {
	name := typeName(t)
	if d, ok := displayed[name]; ok {
		name = d
	}
	if len(t.ArrayBounds) > 0 {
		name += "[]"
	}
	return name
}

func columnType(c *pg.ColumnDef) *Refusal {
	name := typeName(c.TypeName)
	switch {
	case serials[name]:
		return &Refusal{undefined, `type "` + name + `" does not exist`}
	case len(c.GetTypeName().GetArrayBounds()) > 0, refusedTypes[name]:
		return refuse("datatype " + display(c.TypeName) + " not supported")
	}
	return nil
}
