package parse

import (
	"iter"
	"sync"

	pg_query "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Tree returns the parse tree of a text by PostgreSQL's parser. The text must have passed the
// guard. The error is a syntax error. No node is in the tree twice (withoutCopies).
func Tree(sql string) (Message, error) {
	wire, err := parser.ParseToProtobuf(sql)
	if err != nil {
		return Message{}, err
	}
	tree := Message{Shape: Shapes()["ParseResult"], Wire: wire}
	tree.Wire = withoutCopies(tree)
	return tree, nil
}

// Deparse returns the text of a tree in wire form, by PostgreSQL's own deparser.
func Deparse(wire []byte) (string, error) { return parser.DeparseFromProtobuf(wire) }

// SyntaxError is the error of Tree: PostgreSQL's message and position.
type SyntaxError = parser.Error

// Message is one node of a parse tree, read in place in protobuf's wire form. A plan needs little
// of a tree, and a tree of Go values costs more time and memory than the parse. The zero message is
// a missing node.
type Message struct {
	Shape *shape
	Wire  []byte
}

// shape describes the node type of a message.
type shape struct {
	Name    string
	Fields  []Field // by number
	numbers map[string]protowire.Number
}

// Field is one field of a node type. Shape is nil if the field is not a message.
type Field struct {
	Name  string
	Shape *shape
	place bool // a position in the text only
}

// Shapes returns all node types of PostgreSQL's grammar by name.
var Shapes = sync.OnceValue(func() map[string]*shape {
	list := pg_query.File_pg_query_proto.Messages()
	all := make(map[string]*shape, list.Len())
	for i := range list.Len() {
		name := string(list.Get(i).Name())
		all[name] = &shape{Name: name}
	}
	for i := range list.Len() {
		all[string(list.Get(i).Name())].fill(list.Get(i).Fields(), all)
	}
	return all
})

func (s *shape) fill(fields protoreflect.FieldDescriptors, all map[string]*shape) {
	s.numbers = make(map[string]protowire.Number, fields.Len())
	for i := range fields.Len() {
		d := fields.Get(i)
		n, f := d.Number(), Field{Name: string(d.Name()), place: IsPlace(string(d.Name()))}
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

// Is reports whether m is present and of the named type.
func (m Message) Is(name string) bool { return m.Shape != nil && m.Shape.Name == name }

// Name returns the type of m, "" if it is missing.
func (m Message) Name() string {
	if m.Shape == nil {
		return ""
	}
	return m.Shape.Name
}

// Each iterates over the unchanged fields of m: the number, and the payload of a message or string,
// or the value of a number.
func (m Message) Each() iter.Seq2[protowire.Number, Value] {
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

// consume reads the first field of a message and returns the field's length, -1 at the end.
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

// Value is the content of a field: bytes or a number.
type Value struct {
	Bytes  []byte
	Number uint64
}

// Nodes iterates over the messages directly under m. It returns the content of Nodes, which only
// give a type.
func (m Message) Nodes() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for num, v := range m.Each() {
			if int(num) >= len(m.Shape.Fields) {
				continue
			}
			child := m.Shape.Fields[num].Shape
			if child != nil && !yield(Message{child, v.Bytes}.Inner()) {
				return
			}
		}
	}
}

// Inner returns the message in a Node, or m itself.
func (m Message) Inner() Message {
	if m.Shape.Name != "Node" {
		return m
	}
	for held := range m.Nodes() {
		return held
	}
	return Message{}
}

// Number returns a field's number. An unknown name is an internal error; the first statement of a
// kind uses every name.
func (s *shape) Number(field string) protowire.Number {
	n, ok := s.numbers[field]
	if !ok {
		panic("rewrite: " + s.Name + " has no field " + field)
	}
	return n
}

// Last returns the value of a field that is not repeated.
func (m Message) Last(field string) (v Value) {
	if m.Shape == nil {
		return v
	}
	number := m.Shape.Number(field)
	for num, got := range m.Each() {
		if num == number {
			v = got
		}
	}
	return v
}

// Text returns the string in a field, "" for none.
func (m Message) Text(field string) string { return string(m.Last(field).Bytes) }

// Integer returns the number in a field, 0 for none.
func (m Message) Integer(field string) int { return int(int32(m.Last(field).Number)) }

// Flag reports whether a field is true.
func (m Message) Flag(field string) bool { return m.Last(field).Number != 0 }

// Child returns the message in a field.
func (m Message) Child(field string) Message {
	for child := range m.List(field) {
		return child
	}
	return Message{}
}

// List iterates over the messages in a field.
func (m Message) List(field string) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		if m.Shape == nil {
			return
		}
		number := m.Shape.Number(field)
		child := m.Shape.Fields[number].Shape
		for num, v := range m.Each() {
			if num == number && !yield(Message{child, v.Bytes}.Inner()) {
				return
			}
		}
	}
}

// Names returns the strings of a list of names, for example a qualified function name.
func (m Message) Names(field string) []string {
	var names []string
	for s := range m.List(field) {
		if s.Is("String") {
			names = append(names, s.Text("sval"))
		}
	}
	return names
}

// Same reports whether m and o are the same node of one tree, not only equal nodes.
func (m Message) Same(o Message) bool {
	return m.Shape == o.Shape && len(m.Wire) == len(o.Wire) && (len(m.Wire) == 0 || &m.Wire[0] == &o.Wire[0])
}

// Wrapped returns the Nodes in a field unchanged.
func (m Message) Wrapped(field string) []Message {
	if m.Shape == nil {
		return nil
	}
	held := m.Shape.Fields[m.Shape.Number(field)].Shape
	var all []Message
	for _, v := range m.Values(field) {
		all = append(all, Message{held, v.Bytes})
	}
	return all
}

// Node returns the Node in a field that is not repeated, unchanged.
func (m Message) Node(field string) Message {
	for _, n := range m.Wrapped(field) {
		return n
	}
	return Message{}
}

// Kind returns the content of a Node, which may be absent.
func (m Message) Kind() Message {
	if m.Shape == nil {
		return m
	}
	return m.Inner()
}

// Has reports whether m has any of the given fields. DISTINCT is a list with one empty node.
func (m Message) Has(fields ...string) bool {
	for _, f := range fields {
		if len(m.ValuesOf(f)) > 0 {
			return true
		}
	}
	return false
}

// ValuesOf returns the values of a field as Values does, for a message that may be absent.
func (m Message) ValuesOf(field string) []Value {
	if m.Shape == nil {
		return nil
	}
	return m.Values(field)
}

// Wrap returns a node wrapped in the Node of a list.
func Wrap(m Message) Value {
	for number, f := range Shapes()["Node"].Fields {
		if f.Shape == m.Shape {
			return Value{Bytes: protowire.AppendBytes(protowire.AppendTag(nil, protowire.Number(number), protowire.BytesType), m.Wire)}
		}
	}
	panic("rewrite: no Node holds " + m.Name())
}
