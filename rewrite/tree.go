package rewrite

import (
	"iter"
	"sync"

	pg_query "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// parseTree gives a text to PostgreSQL's parser. The text must have passed the
// guard. The error is a syntax error. Nothing stands in the tree twice (withoutCopies).
func parseTree(sql string) (message, error) {
	wire, err := parser.ParseToProtobuf(sql)
	if err != nil {
		return message{}, err
	}
	tree := message{shape: shapes()["ParseResult"], wire: wire}
	tree.wire = withoutCopies(tree)
	return tree, nil
}

// message is one node of a parse tree, read where it lies in protobuf's wire
// form: a plan needs little of a tree, and a tree of Go values costs more time
// and memory than the parse. The zero message is a node that is not there.
type message struct {
	shape *shape
	wire  []byte
}

// shape describes the messages of one type.
type shape struct {
	name    string
	fields  []field // by number
	numbers map[string]protowire.Number
}

// field is one field of a shape. shape is nil for one that is no message.
type field struct {
	name  string
	shape *shape
	place bool // it only says where in the text something stands
}

// shapes are all node types of PostgreSQL's grammar by name.
var shapes = sync.OnceValue(func() map[string]*shape {
	list := pg_query.File_pg_query_proto.Messages()
	all := make(map[string]*shape, list.Len())
	for i := range list.Len() {
		name := string(list.Get(i).Name())
		all[name] = &shape{name: name}
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
		n, f := d.Number(), field{name: string(d.Name()), place: isPlace(string(d.Name()))}
		if d.Message() != nil {
			f.shape = all[string(d.Message().Name())]
		}
		for len(s.fields) <= int(n) {
			s.fields = append(s.fields, field{})
		}
		s.fields[n] = f
		s.numbers[f.name] = n
	}
}

// is reports whether m is there and of that type.
func (m message) is(name string) bool { return m.shape != nil && m.shape.name == name }

// name is the type of m, "" when it is not there.
func (m message) name() string {
	if m.shape == nil {
		return ""
	}
	return m.shape.name
}

// each yields the fields of m as they stand: the number, and the payload of a
// message or string, or the value of a number.
func (m message) each() iter.Seq2[protowire.Number, value] {
	return func(yield func(protowire.Number, value) bool) {
		for b := m.wire; ; {
			num, v, n := consume(b)
			if n < 0 || !yield(num, v) {
				return
			}
			b = b[n:]
		}
	}
}

// consume reads the first field of a message and says how long it is; -1 at the end.
func consume(b []byte) (protowire.Number, value, int) {
	num, typ, head := protowire.ConsumeTag(b)
	if head < 0 {
		return 0, value{}, -1
	}
	var v value
	var n int
	switch typ {
	case protowire.BytesType:
		v.bytes, n = protowire.ConsumeBytes(b[head:])
	case protowire.VarintType:
		v.number, n = protowire.ConsumeVarint(b[head:])
	default:
		n = protowire.ConsumeFieldValue(num, typ, b[head:])
	}
	if n < 0 {
		return 0, value{}, -1
	}
	return num, v, head + n
}

// value is the content of a field: one of the two.
type value struct {
	bytes  []byte
	number uint64
}

// nodes yields the messages directly under m. A Node, which only says which type
// follows, is passed through.
func (m message) nodes() iter.Seq[message] {
	return func(yield func(message) bool) {
		for num, v := range m.each() {
			if int(num) >= len(m.shape.fields) {
				continue
			}
			child := m.shape.fields[num].shape
			if child != nil && !yield(message{child, v.bytes}.inner()) {
				return
			}
		}
	}
}

// inner is the message that a Node holds, or m itself.
func (m message) inner() message {
	if m.shape.name != "Node" {
		return m
	}
	for held := range m.nodes() {
		return held
	}
	return message{}
}

// number is a field's number. A name that the shape lacks is a bug of ours, and
// every name is used by the first statement of its kind.
func (s *shape) number(field string) protowire.Number {
	n, ok := s.numbers[field]
	if !ok {
		panic("rewrite: " + s.name + " has no field " + field)
	}
	return n
}

// last is the value of a field that is not repeated.
func (m message) last(field string) (v value) {
	if m.shape == nil {
		return v
	}
	number := m.shape.number(field)
	for num, got := range m.each() {
		if num == number {
			v = got
		}
	}
	return v
}

func (m message) text(field string) string { return string(m.last(field).bytes) }

func (m message) integer(field string) int { return int(int32(m.last(field).number)) }

func (m message) flag(field string) bool { return m.last(field).number != 0 }

// child is the message in a field.
func (m message) child(field string) message {
	for child := range m.list(field) {
		return child
	}
	return message{}
}

// list yields the messages in a field.
func (m message) list(field string) iter.Seq[message] {
	return func(yield func(message) bool) {
		if m.shape == nil {
			return
		}
		number := m.shape.number(field)
		child := m.shape.fields[number].shape
		for num, v := range m.each() {
			if num == number && !yield(message{child, v.bytes}.inner()) {
				return
			}
		}
	}
}

// names are the strings of a list of names, such as a qualified function name.
func (m message) names(field string) []string {
	var names []string
	for s := range m.list(field) {
		if s.is("String") {
			names = append(names, s.text("sval"))
		}
	}
	return names
}

// same reports whether m and o are one node of one tree.
func (m message) same(o message) bool {
	return m.shape == o.shape && len(m.wire) == len(o.wire) && (len(m.wire) == 0 || &m.wire[0] == &o.wire[0])
}
