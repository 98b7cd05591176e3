package parse

import (
	"slices"
)

// ColumnsIn appends the names of the columns in an expression to columns, each once. It stops at a second name.
func ColumnsIn(expr Message, columns []string) []string {
	if expr.Is("ColumnRef") {
		if name, _ := LastName(expr); name != "" && !slices.Contains(columns, name) {
			columns = append(columns, name)
		}
		return columns
	}
	for child := range expr.Nodes() {
		if columns = ColumnsIn(child, columns); len(columns) > 1 {
			break
		}
	}
	return columns
}

// LastName returns the last name of a column reference, with its node; "" for a star.
func LastName(ref Message) (name string, node Message) {
	for field := range ref.List("fields") {
		node = field
	}
	if !node.Is("String") {
		return "", node
	}
	return node.Text("sval"), node
}

// ConstraintsOf yields the constraints of a CREATE TABLE in their order, each with its columns.
func ConstraintsOf(create Message) func(yield func(constraint Message, keys []string) bool) {
	return func(yield func(Message, []string) bool) {
		for element := range create.List("table_elts") {
			if element.Is("Constraint") && !yield(element, KeysOf(element)) {
				return
			}
			if !element.Is("ColumnDef") {
				continue
			}
			keys := []string{element.Text("colname")}
			for constraint := range element.List("constraints") {
				if !yield(constraint, keys) {
					return
				}
			}
		}
	}
}

// KeysOf returns the columns of a table's constraint.
func KeysOf(constraint Message) []string {
	if ConstraintIs(constraint, CONSTR_FOREIGN) {
		return constraint.Names("fk_attrs")
	}
	return constraint.Names("keys")
}
