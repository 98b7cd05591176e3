package rewrite

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// intent is one change that a rule means to make to a tree: the values that a
// field of a node has afterwards, none to empty it.
type intent struct {
	field  string
	values []value
}

// intents are changes by the node that they are made to, which is known by where
// its bytes lie. A node in it is not empty.
type intents map[*byte][]intent

// set notes a change.
func (in intents) set(m message, field string, values ...value) {
	key := &m.wire[0]
	in[key] = append(in[key], intent{field, values})
}

// of are the changes of one node.
func (in intents) of(m message) []intent {
	if len(in) == 0 || len(m.wire) == 0 {
		return nil
	}
	return in[&m.wire[0]]
}

// element is a field of a node with its value.
type element struct {
	number protowire.Number
	value
}

// walk is the reading of a node's fields: those that mean something (no places
// in the text, no empty values), with the changes to it made.
type walk struct {
	shape *shape
	wire  []byte
	// changed holds the fields instead of wire when there are changes.
	changed []element
	listed  bool
}

func (in intents) walk(m message) walk {
	changes := in.of(m)
	if changes == nil {
		return walk{shape: m.shape, wire: m.wire}
	}
	w := walk{shape: m.shape, listed: true}
	for number, v := range m.each() {
		if !slices.ContainsFunc(changes, func(c intent) bool { return m.shape.number(c.field) == number }) {
			w.changed = append(w.changed, element{number, v})
		}
	}
	for _, c := range changes {
		for _, v := range c.values {
			w.changed = append(w.changed, element{m.shape.number(c.field), v})
		}
	}
	slices.SortStableFunc(w.changed, func(a, b element) int { return int(a.number) - int(b.number) })
	return w
}

// next yields the next field; number 0 is the end.
func (w *walk) next() element {
	for {
		var e element
		if w.listed {
			if len(w.changed) == 0 {
				return element{}
			}
			e, w.changed = w.changed[0], w.changed[1:]
		} else {
			var n int
			if e.number, e.value, n = consume(w.wire); n < 0 {
				return element{}
			}
			w.wire = w.wire[n:]
		}
		if int(e.number) >= len(w.shape.fields) {
			return e
		}
		if w.shape.fields[e.number].place || e.bytes == nil && e.value.number == 0 {
			continue
		}
		return e
	}
}

// equal reports whether the intended tree of a and the tree b are the same.
func (in intents) equal(a, b message) bool {
	if a.shape != b.shape {
		return false
	}
	left, right := in.walk(a), walk{shape: b.shape, wire: b.wire}
	for {
		x, y := left.next(), right.next()
		if x.number != y.number {
			return false
		}
		if x.number == 0 {
			return true
		}
		var held *shape
		if int(x.number) < len(a.shape.fields) {
			held = a.shape.fields[x.number].shape
		}
		switch {
		case held != nil:
			if !in.equal(message{held, x.bytes}, message{held, y.bytes}) {
				return false
			}
		case x.value.number != y.value.number || !bytes.Equal(x.bytes, y.bytes):
			return false
		}
	}
}

// encode writes the intended tree of m.
func (in intents) encode(m message) []byte {
	var b []byte
	for w := in.walk(m); ; {
		e := w.next()
		if e.number == 0 {
			return b
		}
		if e.bytes == nil {
			b = protowire.AppendVarint(protowire.AppendTag(b, e.number, protowire.VarintType), e.value.number)
			continue
		}
		content := e.bytes
		if held := m.shape.fields[e.number].shape; held != nil {
			content = in.encode(message{held, content})
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, e.number, protowire.BytesType), content)
	}
}

// values are the contents of a field as they stand, wrapped in their Nodes.
func (m message) values(field string) []value {
	if m.shape == nil {
		return nil
	}
	var all []value
	number := m.shape.number(field)
	for n, v := range m.each() {
		if n == number {
			all = append(all, v)
		}
	}
	return all
}

// isPlace reports whether a field only says where in the text something stands.
func isPlace(name string) bool { return strings.HasSuffix(name, "location") || name == "stmt_len" }

// sample parses a text of our own, once: rules take from it the nodes that they
// mean to put into a client's tree, so that the parser alone makes nodes. It
// returns the whole tree.
func sample(sql string) func() message {
	return sync.OnceValue(func() message {
		tree, err := parseTree(sql)
		if err != nil {
			panic("rewrite: " + sql + ": " + err.Error())
		}
		return tree
	})
}
