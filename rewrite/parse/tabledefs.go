package parse

import (
	"slices"
)

// AppendColumnNames appends the names of the columns in an expression to columns, each once. AppendColumnNames stops at
// a second name.
func AppendColumnNames(expr TreeNode, columns []string) []string {
	if expr.Is("ColumnRef") {
		if name, _ := LastRefName(expr); name != "" && !slices.Contains(columns, name) {
			columns = append(columns, name)
		}
		return columns
	}
	for child := range expr.Children() {
		if columns = AppendColumnNames(child, columns); len(columns) > 1 {
			break
		}
	}
	return columns
}

// LastRefName returns the last name of a column reference, with the name's node. The name is "" for a star.
func LastRefName(ref TreeNode) (name string, node TreeNode) {
	for field := range ref.List("fields") {
		node = field
	}
	if !node.Is("String") {
		return "", node
	}
	return node.Text("sval"), node
}

// ConstraintsOf yields the constraints of a CREATE TABLE in their order, each with its columns.
func ConstraintsOf(create TreeNode) func(yield func(constraint TreeNode, keys []string) bool) {
	return func(yield func(TreeNode, []string) bool) {
		for element := range create.List("table_elts") {
			if element.Is("Constraint") && !yield(element, ConstraintColumns(element)) {
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

// ConstraintColumns returns the columns of a table's constraint.
func ConstraintColumns(constraint TreeNode) []string {
	if ConstraintIs(constraint, CONSTR_FOREIGN) {
		return constraint.Names("fk_attrs")
	}
	return constraint.Names("keys")
}
