package copyrows

import (
	"fmt"
	"slices"
)

// Facts are what the catalog says of a column.
type Facts struct {
	Column
	// Generated: nothing writes to it. Always: it is an identity of its own numbers.
	Generated, Always bool
}

// ErrKind is PostgreSQL's error of a relation that takes no COPY; nil for one that does. kind is
// that of pg_class.
func ErrKind(kind, name string) *Error {
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

// Chosen are the columns of a table that a COPY names, in its order; all that can be written to,
// where it names none.
func Chosen(table string, all []Facts, named []string) (columns []Facts, err *Error) {
	if named == nil {
		return slices.DeleteFunc(all, func(c Facts) bool { return c.Generated }), nil
	}
	for _, name := range named {
		is := func(c Facts) bool { return c.Name == name }
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

// Forced tells, by column, which of them an option names; nil where it names none.
func Forced(option string, columns []Column, named []string) (forced []bool, err *Error) {
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

// Unread is the first column whose binary form is not read; nil where all are.
func Unread(columns []Column) *Column {
	i := slices.IndexFunc(columns, func(c Column) bool { return !Reads(c.Type) })
	if i < 0 {
		return nil
	}
	return &columns[i]
}
