package parse

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// PostgreSQL's parser copies the source of "SET (a, b) = source" under each target. Package parse removes the copies:
// its trees have the source only under the first target. Each node then has one place in the text, and no rule edits a
// place twice.

// MultiAssign is the node type of one target in an assignment to several columns, such as a in "SET (a, b) = source".
const MultiAssign = "MultiAssignRef"

// withoutCopies returns the wire form of a parse tree without the copies that the parser makes. The source of an
// assignment to several columns is then under the first target only.
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

// removeCopies returns the wire form of a node without the copies of assignments' sources. changed is false if the node
// has no copy. wire is then the node's own wire form.
func removeCopies(m TreeNode) (wire []byte, changed bool) {
	copied := m.Is(MultiAssign) && m.Integer("colno") > 1
	at := 0 // the end of the fields that the loop has read
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
		if !changed && len(field) != n { // a child without its copy is shorter
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
