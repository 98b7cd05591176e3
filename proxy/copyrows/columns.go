package copyrows

import (
	"fmt"
	"slices"
)

// ColumnFacts describe a column of the COPY's table, as the catalog has it.
type ColumnFacts struct {
	Column
	// Generated means that the column cannot be written. Always means that the column is an identity column GENERATED
	// ALWAYS.
	Generated, Always bool
}

// CheckRelationKind returns PostgreSQL's error for a relation that does not support COPY, or nil for a relation that
// does. kind is the relkind of pg_class.
func CheckRelationKind(kind, name string) *Error {
	what := "non-table relation"
	switch kind {
	case "r", "p":
		return nil
	case "v":
		what = "view"
	case "m":
		what = "materialized view"
	case "S":
		what = "sequence"
	}
	return &Error{Code: "42809", Message: fmt.Sprintf("cannot copy to %s \"%s\"", what, name)}
}

// SelectColumns returns the columns that a COPY names, in the order of the COPY. If named is nil, it returns all
// columns that can be written.
func SelectColumns(table string, all []ColumnFacts, named []string) (columns []ColumnFacts, err *Error) {
	if named == nil {
		return slices.DeleteFunc(all, func(c ColumnFacts) bool { return c.Generated }), nil
	}
	for _, name := range named {
		is := func(c ColumnFacts) bool { return c.Name == name }
		i := slices.IndexFunc(all, is)
		switch {
		case i < 0:
			return nil, &Error{Code: "42703", Message: fmt.Sprintf("column \"%s\" of relation \"%s\" does not exist", name, table)}
		case all[i].Generated:
			return nil, &Error{Code: "42P10", Message: fmt.Sprintf("column \"%s\" is a generated column", name), Detail: "Generated columns cannot be used in COPY."}
		case slices.ContainsFunc(columns, is):
			return nil, &Error{Code: "42701", Message: fmt.Sprintf("column \"%s\" specified more than once", name)}
		}
		columns = append(columns, all[i])
	}
	return columns, nil
}

// ForcedColumns returns, for each column, whether an option such as FORCE_NULL names it. If the option names no
// columns, ForcedColumns returns nil.
func ForcedColumns(option string, columns []Column, named []string) (forced []bool, err *Error) {
	if named == nil {
		return nil, nil
	}
	forced = make([]bool, len(columns))
	for _, name := range named {
		i := slices.IndexFunc(columns, func(c Column) bool { return c.Name == name })
		if i < 0 {
			return nil, &Error{Code: "42P10", Message: fmt.Sprintf("%s column \"%s\" not referenced by COPY", option, name)}
		}
		forced[i] = true
	}
	return forced, nil
}

// FirstUnsupported returns the first column whose type has no supported binary form, or nil.
func FirstUnsupported(columns []Column) *Column {
	i := slices.IndexFunc(columns, func(c Column) bool { return !SupportsBinary(c.Type) })
	if i < 0 {
		return nil
	}
	return &columns[i]
}
