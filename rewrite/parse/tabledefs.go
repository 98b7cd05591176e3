package parse

import (
	"slices"
)

// AppendColumnNames appends to columns the names of the columns in an expression, each once. It stops as soon as
// columns has two names.
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

// LastRefName returns the last name in a column reference, and the name's node. For a star, the name is "".
func LastRefName(ref TreeNode) (name string, node TreeNode) {
	for field := range ref.List("fields") {
		node = field
	}
	if !node.Is("String") {
		return "", node
	}
	return node.Text("sval"), node
}

// ConstraintsOf yields the constraints of a CREATE TABLE in their order. keys are the columns of the constraint.
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

// ConstraintColumns returns the columns in a table constraint: those of a key, or the referencing ones of a FOREIGN
// KEY.
func ConstraintColumns(constraint TreeNode) []string {
	if ConstraintIs(constraint, CONSTR_FOREIGN) {
		return constraint.Names("fk_attrs")
	}
	return constraint.Names("keys")
}
