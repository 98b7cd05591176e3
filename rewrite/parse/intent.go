package parse

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// intent is one intended change of a tree: the new values of a node's field, or no value to empty the field.
type intent struct {
	field  string
	values []Value
}

// Intents are intended changes of a tree by node. The address of its bytes identifies a node, so a changed node must
// not be empty.
type Intents map[*byte][]intent

// Set records that a field of node m gets these values.
func (in Intents) Set(m Message, field string, values ...Value) {
	key := &m.Wire[0]
	in[key] = append(in[key], intent{field, values})
}

// of returns the intended changes of one node.
func (in Intents) of(m Message) []intent {
	if len(in) == 0 || len(m.Wire) == 0 {
		return nil
	}
	return in[&m.Wire[0]]
}

// Element is a field of a node with its value.
type Element struct {
	Number protowire.Number
	Value
}

// Walker reads the fields of a node with the intended changes applied. It skips positions in the text and empty values.
type Walker struct {
	shape *shape
	wire  []byte
	// changed holds the fields if the node has changes; wire is unused then.
	changed []Element
	listed  bool
}

// Walk returns a Walker over the fields of m, with the intended changes applied.
func (in Intents) Walk(m Message) Walker {
	changes := in.of(m)
	if changes == nil {
		return Walker{shape: m.Shape, wire: m.Wire}
	}
	w := Walker{shape: m.Shape, listed: true}
	for number, v := range m.Each() {
		if !slices.ContainsFunc(changes, func(c intent) bool { return m.Shape.Number(c.field) == number }) {
			w.changed = append(w.changed, Element{number, v})
		}
	}
	for _, c := range changes {
		for _, v := range c.values {
			w.changed = append(w.changed, Element{m.Shape.Number(c.field), v})
		}
	}
	slices.SortStableFunc(w.changed, func(a, b Element) int { return int(a.Number) - int(b.Number) })
	return w
}

// Next returns the next field of the node; number 0 means the end.
func (w *Walker) Next() Element {
	for {
		var e Element
		if w.listed {
			if len(w.changed) == 0 {
				return Element{}
			}
			e, w.changed = w.changed[0], w.changed[1:]
		} else {
			var n int
			if e.Number, e.Value, n = consume(w.wire); n < 0 {
				return Element{}
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
func (in Intents) Equal(a, b Message) bool {
	if a.Shape != b.Shape {
		return false
	}
	left, right := in.Walk(a), Walker{shape: b.Shape, wire: b.Wire}
	for {
		x, y := left.Next(), right.Next()
		if x.Number != y.Number {
			return false
		}
		if x.Number == 0 {
			return true
		}
		var held *shape
		if int(x.Number) < len(a.Shape.Fields) {
			held = a.Shape.Fields[x.Number].Shape
		}
		switch {
		case held != nil:
			if !in.Equal(Message{held, x.Bytes}, Message{held, y.Bytes}) {
				return false
			}
		case x.Value.Number != y.Value.Number || !bytes.Equal(x.Bytes, y.Bytes):
			return false
		}
	}
}

// Encode returns the wire form of the tree m with the intended changes.
func (in Intents) Encode(m Message) []byte {
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
			content = in.Encode(Message{held, content})
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, e.Number, protowire.BytesType), content)
	}
}

// Values returns the values of a field as they are, wrapped in their Nodes.
func (m Message) Values(field string) []Value {
	if m.Shape == nil {
		return nil
	}
	var all []Value
	number := m.Shape.Number(field)
	for n, v := range m.Each() {
		if n == number {
			all = append(all, v)
		}
	}
	return all
}

// IsPlace reports whether a field is only a position in the text.
func IsPlace(name string) bool { return strings.HasSuffix(name, "location") || name == "stmt_len" }

// Sample returns a function that parses sql at its first call and returns the whole tree. Rules copy nodes from a
// sample into a client's tree, so that only the parser makes nodes.
func Sample(sql string) func() Message {
	return sync.OnceValue(func() Message {
		tree, err := Tree(sql)
		if err != nil {
			panic("rewrite: " + sql + ": " + err.Error())
		}
		return tree
	})
}

// Convert records that the content of a Node becomes the expression of a sample, with the old content instead of NULL.
func (in Intents) Convert(n, sample Message) {
	made := Converted(sample)
	operand := Hole(made)
	in.Set(operand, "a_const")
	if changes := in.of(n); changes == nil {
		in.become(operand, n)
	} else {
		in[&operand.Wire[0]] = append(in[&operand.Wire[0]], changes...)
		delete(in, &n.Wire[0])
	}
	in.Replace(n, made)
}

// Converted returns a copy of the expression in a sample, as a Node.
func Converted(sample Message) Message {
	return Message{Shapes()["Node"], slices.Clone(sample.Child("stmts").Child("stmt").Child("target_list").Values("val")[0].Bytes)}
}

// Hole returns the Node with the constant NULL in a tree.
func Hole(n Message) Message {
	if n.Is("Node") && n.Inner().Is("A_Const") && n.Inner().Flag("isnull") {
		return n
	}
	for number, v := range n.Each() {
		if int(number) >= len(n.Shape.Fields) || n.Shape.Fields[number].Shape == nil {
			continue
		}
		if found := Hole(Message{n.Shape.Fields[number].Shape, v.Bytes}); found.Shape != nil {
			return found
		}
	}
	return Message{}
}

// become copies the content of another Node into Node n.
func (in Intents) become(n, other Message) {
	for number, v := range other.Each() {
		in.Set(n, other.Shape.Fields[number].Name, v)
	}
}

// Replace records that the content of another Node replaces that of Node n.
func (in Intents) Replace(n, other Message) {
	for number := range n.Each() {
		in.Set(n, n.Shape.Fields[number].Name)
	}
	in.become(n, other)
}
