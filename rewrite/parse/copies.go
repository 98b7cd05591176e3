package parse

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// PostgreSQL's parser repeats the source of "SET (a, b) = source" under each target. Trees of package parse have the
// source once, under the first target. Each node thus has one place in the text, and no rule edits a place twice.

// MultiAssign is the node type of one target in an assignment to several columns.
const MultiAssign = "MultiAssignRef"

// withoutCopies returns the wire form of a parse tree in which the source of each assignment is under the first target
// only.
func withoutCopies(tree TreeNode) []byte {
	node := NodeTypes()["Node"]
	for number, f := range node.Fields {
		if f.Shape != nil && f.Shape.Name == MultiAssign && bytes.Contains(tree.Wire, protowire.AppendTag(nil, protowire.Number(number), protowire.BytesType)) {
			wire, _ := removeCopies(tree)
			return wire
		}
	}
	return tree.Wire
}

// removeCopies removes the copies of assignments' sources from one node. changed is false if the node has no copy. In
// that case wire is the node's own wire form.
func removeCopies(m TreeNode) (wire []byte, changed bool) {
	copied := m.Is(MultiAssign) && m.Integer("colno") > 1
	at := 0 // end of the fields read so far
	for {
		number, v, n := consume(m.Wire[at:])
		if n < 0 {
			break
		}
		field := m.Wire[at : at+n]
		var child *nodeType
		if int(number) < len(m.Shape.Fields) {
			child = m.Shape.Fields[number].Shape
		}
		if child != nil && copied && m.Shape.Fields[number].Name == "source" {
			field = nil
		} else if child != nil {
			if made, other := removeCopies(TreeNode{child, v.Bytes}); other {
				field = protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), made)
			}
		}
		if !changed && len(field) != n { // a node without its copy is shorter
			wire, changed = bytes.Clone(m.Wire[:at]), true
		}
		if changed {
			wire = append(wire, field...)
		}
		at += n
	}
	if !changed {
		return m.Wire, false
	}
	return wire, true
}
