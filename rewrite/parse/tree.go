package parse

import (
	"iter"
	"sync"

	pg_query "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Tree returns the parse tree of a text, made by PostgreSQL's parser, or a syntax error. CheckLimits must have accepted
// the text. Nodes that the parser copies are in the tree only once (withoutCopies).
func Tree(sql string) (TreeNode, error) {
	wire, err := parser.ParseToProtobuf(sql)
	if err != nil {
		return TreeNode{}, err
	}
	tree := TreeNode{Shape: NodeTypes()["ParseResult"], Wire: wire}
	tree.Wire = withoutCopies(tree)
	return tree, nil
}

// Deparse returns the SQL text of a tree in protobuf's wire form. PostgreSQL's own deparser makes the text.
func Deparse(wire []byte) (string, error) { return parser.DeparseFromProtobuf(wire) }

// SyntaxError is the error that Tree returns: PostgreSQL's message, and the position in the text.
type SyntaxError = parser.Error

// TreeNode is one node of a parse tree. It reads the node in place, in protobuf's wire form. A tree of Go values would
// cost more time and memory than the parse. The zero TreeNode is a missing node.
type TreeNode struct {
	Shape *nodeType
	Wire  []byte
}

// nodeType describes a type of nodes in PostgreSQL's parse trees.
type nodeType struct {
	Name    string
	Fields  []Field // indexed by the fields' numbers in protobuf
	numbers map[string]protowire.Number
}

// Field is one field of a nodeType. Shape is the type of the node in the field, or nil if the field has no node.
type Field struct {
	Name  string
	Shape *nodeType
	place bool // the field only has a position in the text
}

// NodeTypes returns all types of nodes in PostgreSQL's parse trees, by name.
var NodeTypes = sync.OnceValue(func() map[string]*nodeType {
	list := pg_query.File_pg_query_proto.Messages()
	all := make(map[string]*nodeType, list.Len())
	for i := range list.Len() {
		name := string(list.Get(i).Name())
		all[name] = &nodeType{Name: name}
	}
	for i := range list.Len() {
		all[string(list.Get(i).Name())].addFields(list.Get(i).Fields(), all)
	}
	return all
})

func (s *nodeType) addFields(fields protoreflect.FieldDescriptors, all map[string]*nodeType) {
	s.numbers = make(map[string]protowire.Number, fields.Len())
	for i := range fields.Len() {
		d := fields.Get(i)
		n, f := d.Number(), Field{Name: string(d.Name()), place: IsPositionField(string(d.Name()))}
		if d.Message() != nil {
			f.Shape = all[string(d.Message().Name())]
		}
		for len(s.Fields) <= int(n) {
			s.Fields = append(s.Fields, Field{})
		}
		s.Fields[n] = f
		s.numbers[f.Name] = n
	}
}

// Is reports whether the node m is present and has the named type.
func (m TreeNode) Is(name string) bool { return m.Shape != nil && m.Shape.Name == name }

// TypeName returns the name of the node's type, or "" for a missing node.
func (m TreeNode) TypeName() string {
	if m.Shape == nil {
		return ""
	}
	return m.Shape.Name
}

// EachField iterates over the fields of m, by field number. A field's value is a number, or the bytes of a message or
// text.
func (m TreeNode) EachField() iter.Seq2[protowire.Number, Value] {
	return func(yield func(protowire.Number, Value) bool) {
		for b := m.Wire; ; {
			num, v, n := consume(b)
			if n < 0 || !yield(num, v) {
				return
			}
			b = b[n:]
		}
	}
}

// consume reads the first field of a protobuf message. It returns the field's length in bytes, or -1 at the end.
func consume(b []byte) (protowire.Number, Value, int) {
	num, typ, head := protowire.ConsumeTag(b)
	if head < 0 {
		return 0, Value{}, -1
	}
	var v Value
	var n int
	switch typ {
	case protowire.BytesType:
		v.Bytes, n = protowire.ConsumeBytes(b[head:])
	case protowire.VarintType:
		v.Number, n = protowire.ConsumeVarint(b[head:])
	default:
		n = protowire.ConsumeFieldValue(num, typ, b[head:])
	}
	if n < 0 {
		return 0, Value{}, -1
	}
	return num, v, head + n
}

// Value is the content of a field: the bytes of a message or string, or a number.
type Value struct {
	Bytes  []byte
	Number uint64
}

// Children iterates over the nodes directly under m. In place of a Node (a mere wrapper) it yields the Node's content.
func (m TreeNode) Children() iter.Seq[TreeNode] {
	return func(yield func(TreeNode) bool) {
		for num, v := range m.EachField() {
			if int(num) >= len(m.Shape.Fields) {
				continue
			}
			child := m.Shape.Fields[num].Shape
			if child != nil && !yield(TreeNode{child, v.Bytes}.UnwrapNode()) {
				return
			}
		}
	}
}

// UnwrapNode returns the content of m if m is a Node (a wrapper that only gives a type). Otherwise it returns m.
func (m TreeNode) UnwrapNode() TreeNode {
	if m.Shape.Name != "Node" {
		return m
	}
	for held := range m.Children() {
		return held
	}
	return TreeNode{}
}

// FieldNumber returns the protobuf number of a node type's field. It panics for an unknown name, which is an internal
// error that the first statement of a kind already shows.
func (s *nodeType) FieldNumber(field string) protowire.Number {
	n, ok := s.numbers[field]
	if !ok {
		panic("rewrite: " + s.Name + " has no field " + field)
	}
	return n
}

// SingleValue returns the value of a field that has at most one value.
func (m TreeNode) SingleValue(field string) (v Value) {
	if m.Shape == nil {
		return v
	}
	number := m.Shape.FieldNumber(field)
	for num, got := range m.EachField() {
		if num == number {
			v = got
		}
	}
	return v
}

// Text returns the string in a field of the node, or "" if the field is absent.
func (m TreeNode) Text(field string) string { return string(m.SingleValue(field).Bytes) }

// Integer returns the number in a field of the node, or 0 if the field is absent.
func (m TreeNode) Integer(field string) int { return int(int32(m.SingleValue(field).Number)) }

// Flag reports whether a boolean field of the node is true.
func (m TreeNode) Flag(field string) bool { return m.SingleValue(field).Number != 0 }

// Child returns the node in a field of m, or the first node of a list.
func (m TreeNode) Child(field string) TreeNode {
	for child := range m.List(field) {
		return child
	}
	return TreeNode{}
}

// List iterates over the nodes in a field of m that may have several.
func (m TreeNode) List(field string) iter.Seq[TreeNode] {
	return func(yield func(TreeNode) bool) {
		if m.Shape == nil {
			return
		}
		number := m.Shape.FieldNumber(field)
		child := m.Shape.Fields[number].Shape
		for num, v := range m.EachField() {
			if num == number && !yield(TreeNode{child, v.Bytes}.UnwrapNode()) {
				return
			}
		}
	}
}

// Names returns the strings in a field that is a list of names, for example a qualified function name.
func (m TreeNode) Names(field string) []string {
	var names []string
	for s := range m.List(field) {
		if s.Is("String") {
			names = append(names, s.Text("sval"))
		}
	}
	return names
}

// IsSameNode reports whether m and o are the same node of one tree. Equal nodes at two places are not the same.
func (m TreeNode) IsSameNode(o TreeNode) bool {
	return m.Shape == o.Shape && len(m.Wire) == len(o.Wire) && (len(m.Wire) == 0 || &m.Wire[0] == &o.Wire[0])
}

// WrappedNodes returns the Nodes in a field of m without unwrapping them. A Node is a wrapper that only gives a type.
func (m TreeNode) WrappedNodes(field string) []TreeNode {
	if m.Shape == nil {
		return nil
	}
	held := m.Shape.Fields[m.Shape.FieldNumber(field)].Shape
	var all []TreeNode
	for _, v := range m.Values(field) {
		all = append(all, TreeNode{held, v.Bytes})
	}
	return all
}

// WrappedNode returns the single Node (a wrapper that only gives a type) in a field of m, without unwrapping it.
func (m TreeNode) WrappedNode(field string) TreeNode {
	for _, n := range m.WrappedNodes(field) {
		return n
	}
	return TreeNode{}
}

// NodeContent returns the content of the Node m (a wrapper that only gives a type). m and its content may be absent.
func (m TreeNode) NodeContent() TreeNode {
	if m.Shape == nil {
		return m
	}
	return m.UnwrapNode()
}

// Has reports whether m has at least one of the fields. DISTINCT counts, because it is a list with one empty node.
func (m TreeNode) Has(fields ...string) bool {
	for _, f := range fields {
		if len(m.ValuesIfPresent(f)) > 0 {
			return true
		}
	}
	return false
}

// ValuesIfPresent returns the values of a field of m, as Values does. It returns nil if m is absent.
func (m TreeNode) ValuesIfPresent(field string) []Value {
	if m.Shape == nil {
		return nil
	}
	return m.Values(field)
}

// WrapInNode returns m, wrapped in a Node. PostgreSQL's lists need this wrapper, which only gives the type.
func WrapInNode(m TreeNode) Value {
	for number, f := range NodeTypes()["Node"].Fields {
		if f.Shape == m.Shape {
			return Value{Bytes: protowire.AppendBytes(protowire.AppendTag(nil, protowire.Number(number), protowire.BytesType), m.Wire)}
		}
	}
	panic("rewrite: no Node holds " + m.TypeName())
}
