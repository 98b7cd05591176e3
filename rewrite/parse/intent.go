package parse

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// treeChange is one intended change of a parse tree: a field of a node gets new values. No values empty the field.
type treeChange struct {
	field  string
	values []Value
}

// TreeChanges are the intended changes of a parse tree, keyed by node. The address of a node's first byte identifies
// the node, so a node without bytes cannot be changed.
type TreeChanges map[*byte][]treeChange

// Set records that a field of node m is to get these values.
func (in TreeChanges) Set(m TreeNode, field string, values ...Value) {
	key := &m.Wire[0]
	in[key] = append(in[key], treeChange{field, values})
}

// changesOf returns the intended changes of the fields of node m.
func (in TreeChanges) changesOf(m TreeNode) []treeChange {
	if len(in) == 0 || len(m.Wire) == 0 {
		return nil
	}
	return in[&m.Wire[0]]
}

// FieldWithValue is a field of a node: the field's protobuf number, and its value.
type FieldWithValue struct {
	Number protowire.Number
	Value
}

// FieldWalker iterates over the fields of a node as the intended changes make them. It skips positions in the text and
// empty values.
type FieldWalker struct {
	shape *nodeType
	wire  []byte
	// changed holds the remaining fields of a node with intended changes. For any other node, wire is used instead.
	changed []FieldWithValue
	listed  bool
}

// Walk returns a FieldWalker over the fields of m as the intended changes make them.
func (in TreeChanges) Walk(m TreeNode) FieldWalker {
	changes := in.changesOf(m)
	if changes == nil {
		return FieldWalker{shape: m.Shape, wire: m.Wire}
	}
	w := FieldWalker{shape: m.Shape, listed: true}
	for number, v := range m.EachField() {
		if !slices.ContainsFunc(changes, func(c treeChange) bool { return m.Shape.FieldNumber(c.field) == number }) {
			w.changed = append(w.changed, FieldWithValue{number, v})
		}
	}
	for _, c := range changes {
		for _, v := range c.values {
			w.changed = append(w.changed, FieldWithValue{m.Shape.FieldNumber(c.field), v})
		}
	}
	slices.SortStableFunc(w.changed, func(a, b FieldWithValue) int { return int(a.Number) - int(b.Number) })
	return w
}

// Next returns the next field of the node. A field with the number 0 means that there are no more.
func (w *FieldWalker) Next() FieldWithValue {
	for {
		var e FieldWithValue
		if w.listed {
			if len(w.changed) == 0 {
				return FieldWithValue{}
			}
			e, w.changed = w.changed[0], w.changed[1:]
		} else {
			var n int
			if e.Number, e.Value, n = consume(w.wire); n < 0 {
				return FieldWithValue{}
			}
			w.wire = w.wire[n:]
		}
		if int(e.Number) >= len(w.shape.Fields) {
			return e
		}
		if w.shape.Fields[e.Number].place || e.Bytes == nil && e.Value.Number == 0 {
			continue
		}
		return e
	}
}

// Equal reports whether the tree a, with the intended changes, equals the tree b.
func (in TreeChanges) Equal(a, b TreeNode) bool {
	if a.Shape != b.Shape {
		return false
	}
	left, right := in.Walk(a), FieldWalker{shape: b.Shape, wire: b.Wire}
	for {
		x, y := left.Next(), right.Next()
		if x.Number != y.Number {
			return false
		}
		if x.Number == 0 {
			return true
		}
		var held *nodeType
		if int(x.Number) < len(a.Shape.Fields) {
			held = a.Shape.Fields[x.Number].Shape
		}
		switch {
		case held != nil:
			if !in.Equal(TreeNode{held, x.Bytes}, TreeNode{held, y.Bytes}) {
				return false
			}
		case x.Value.Number != y.Value.Number || !bytes.Equal(x.Bytes, y.Bytes):
			return false
		}
	}
}

// Encode returns the tree m with the intended changes, in protobuf's wire form.
func (in TreeChanges) Encode(m TreeNode) []byte {
	var b []byte
	for w := in.Walk(m); ; {
		e := w.Next()
		if e.Number == 0 {
			return b
		}
		if e.Bytes == nil {
			b = protowire.AppendVarint(protowire.AppendTag(b, e.Number, protowire.VarintType), e.Value.Number)
			continue
		}
		content := e.Bytes
		if held := m.Shape.Fields[e.Number].Shape; held != nil {
			content = in.Encode(TreeNode{held, content})
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, e.Number, protowire.BytesType), content)
	}
}

// Values returns the values of a field of the node, without intended changes. Nodes remain in their wrappers (Node).
func (m TreeNode) Values(field string) []Value {
	if m.Shape == nil {
		return nil
	}
	var all []Value
	number := m.Shape.FieldNumber(field)
	for n, v := range m.EachField() {
		if n == number {
			all = append(all, v)
		}
	}
	return all
}

// IsPositionField reports whether the field of this name only has a position in the text.
func IsPositionField(name string) bool {
	return strings.HasSuffix(name, "location") || name == "stmt_len"
}

// LazyTree returns a function that returns the tree of sql, and parses sql at its first call. Rules copy nodes of the
// tree into a client's tree, so that the parser makes all nodes.
func LazyTree(sql string) func() TreeNode {
	return sync.OnceValue(func() TreeNode {
		tree, err := Tree(sql)
		if err != nil {
			panic("rewrite: " + sql + ": " + err.Error())
		}
		return tree
	})
}

// WrapInSample records that the content of Node n becomes an operand of the expression in the sample tree. The
// expression has NULL at the operand's place.
func (in TreeChanges) WrapInSample(n, sample TreeNode) {
	made := SampleExpression(sample)
	operand := NullPlaceholder(made)
	in.Set(operand, "a_const")
	if changes := in.changesOf(n); changes == nil {
		in.copyContent(operand, n)
	} else {
		in[&operand.Wire[0]] = append(in[&operand.Wire[0]], changes...)
		delete(in, &n.Wire[0])
	}
	in.ReplaceContent(n, made)
}

// SampleExpression returns a copy of the expression in the sample tree, a SELECT of one expression, as a Node.
func SampleExpression(sample TreeNode) TreeNode {
	return TreeNode{NodeTypes()["Node"], slices.Clone(sample.Child("stmts").Child("stmt").Child("target_list").Values("val")[0].Bytes)}
}

// NullPlaceholder returns the Node under n that contains the constant NULL.
func NullPlaceholder(n TreeNode) TreeNode {
	if n.Is("Node") && n.UnwrapNode().Is("A_Const") && n.UnwrapNode().Flag("isnull") {
		return n
	}
	for number, v := range n.EachField() {
		if int(number) >= len(n.Shape.Fields) || n.Shape.Fields[number].Shape == nil {
			continue
		}
		if found := NullPlaceholder(TreeNode{n.Shape.Fields[number].Shape, v.Bytes}); found.Shape != nil {
			return found
		}
	}
	return TreeNode{}
}

// copyContent records that Node n gets the content of the Node other.
func (in TreeChanges) copyContent(n, other TreeNode) {
	for number, v := range other.EachField() {
		in.Set(n, other.Shape.Fields[number].Name, v)
	}
}

// ReplaceContent records that the content of the Node other replaces the content of Node n.
func (in TreeChanges) ReplaceContent(n, other TreeNode) {
	for number := range n.EachField() {
		in.Set(n, n.Shape.Fields[number].Name)
	}
	in.copyContent(n, other)
}
