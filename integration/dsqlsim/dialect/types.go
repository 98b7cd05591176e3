package dialect

import (
	"fmt"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// displayNames maps PostgreSQL's internal names of types to the names that PostgreSQL shows.
var displayNames = map[string]string{
	"int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision",
	"bool": "boolean", "bpchar": "character", "varchar": "character varying", "varbit": "bit varying",
	"time": "time without time zone", "timetz": "time with time zone",
	"timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone",
	"char": `"char"`,
}

// unsupportedColumnTypes are PostgreSQL's types that DSQL refuses for a column (recorded: type_unsupported_*; accepted
// types: types_supported_columns, types_alias_columns). Most of them work in expressions.
var unsupportedColumnTypes = wordSet("money xml inet cidr macaddr macaddr8 point line lseg box path polygon circle " +
	"tsvector tsquery gtsvector int4range int8range numrange tsrange tstzrange daterange " +
	"int4multirange int8multirange nummultirange tsmultirange tstzmultirange datemultirange bit varbit " +
	"pg_lsn pg_snapshot txid_snapshot jsonpath oid xid xid8 cid tid name char refcursor aclitem " +
	"int2vector oidvector pg_node_tree pg_ndistinct pg_dependencies pg_mcv_list " +
	"regclass regcollation regconfig regdictionary regnamespace regoper regoperator regproc regprocedure regrole regtype")

// geometricTypes are the geometric types, which DSQL refuses in expressions too (recorded: q_geom_*).
var geometricTypes = wordSet("point line lseg box path polygon circle")

// serialTypes are the serial types, which do not exist in DSQL (recorded: serial_column, alter_add_column_serial).
var serialTypes = wordSet("serial bigserial smallserial serial2 serial4 serial8")

// These are bounds of declared lengths of character types (measured 2026-10).
const (
	maxVarchar = 65_535
	maxChar    = 4_096
)

func wordSet(s string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

// typeName returns the internal name of a built-in type, or of an unqualified type. For a type in a client's schema it
// returns "".
func typeName(t *pg.TypeName) string {
	n := len(t.GetNames())
	if n == 0 || n > 1 && t.Names[n-2].GetString_().GetSval() != "pg_catalog" {
		return ""
	}
	return t.Names[n-1].GetString_().GetSval()
}

// displayName returns the type's name as PostgreSQL shows it, with array brackets.
func displayName(t *pg.TypeName) string {
	name := typeName(t)
	if d, ok := displayNames[name]; ok {
		name = d
	}
	if len(t.ArrayBounds) > 0 {
		name += "[]"
	}
	return name
}

// checkColumnType returns the refusal of the declared type of a column, or nil.
func checkColumnType(t *pg.TypeName) *Refusal {
	name := typeName(t)
	switch {
	case serialTypes[name]:
		return &Refusal{undefined, `type "` + name + `" does not exist`}
	case len(t.GetArrayBounds()) > 0, unsupportedColumnTypes[name]:
		return notSupportedRefusal("datatype " + displayName(t) + " not supported")
	case name == "varchar":
		return checkTypeLength(t, maxVarchar, "varchar")
	case name == "bpchar":
		return checkTypeLength(t, maxChar, "char")
	}
	return nil
}

func checkTypeLength(t *pg.TypeName, max int, name string) *Refusal {
	if len(t.Typmods) == 0 || int(t.Typmods[0].GetAConst().GetIval().GetIval()) <= max {
		return nil
	}
	return &Refusal{tooMuch, fmt.Sprintf("Datatype limit greater than %d bytes not supported for %s", max, name)}
}
