package rewrite

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// The parser repeats the source of an assignment to several columns, "SET (a, b) = source", under each
// target. A tree that is read here has it once, under the first: each node of a tree then stands at one place
// of the text, and no rule edits that place twice.

// multiAssign is the node of one target of such an assignment.
const multiAssign = "MultiAssignRef"

// withoutCopies is the wire form of a tree whose sources stand under their first targets only.
func withoutCopies(tree message) []byte {
	node := shapes()["Node"]
	for number, f := range node.fields {
		if f.shape != nil && f.shape.name == multiAssign && bytes.Contains(tree.wire, protowire.AppendTag(nil, protowire.Number(number), protowire.BytesType)) {
			wire, _ := copiesOut(tree)
			return wire
		}
	}
	return tree.wire
}

// copiesOut is withoutCopies for one node. changed is false where the node has no copy, and wire is its own.
func copiesOut(m message) (wire []byte, changed bool) {
	copied := m.is(multiAssign) && m.integer("colno") > 1
	at := 0 // the end of the fields that were read
	for {
		number, v, n := consume(m.wire[at:])
		if n < 0 {
			break
		}
		field := m.wire[at : at+n]
		var child *shape
		if int(number) < len(m.shape.fields) {
			child = m.shape.fields[number].shape
		}
		if child != nil && copied && m.shape.fields[number].name == "source" {
			field = nil
		} else if child != nil {
			if made, other := copiesOut(message{child, v.bytes}); other {
				field = protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), made)
			}
		}
		if !changed && len(field) != n { // a node without a copy is shorter
			wire, changed = bytes.Clone(m.wire[:at]), true
		}
		if changed {
			wire = append(wire, field...)
		}
		at += n
	}
	if !changed {
		return m.wire, false
	}
	return wire, true
}
