package rewrite

import "github.com/sluice-proxy/sluice/rewrite/schema"

// Names that a snapshot of the schema lacks: another process may have made the relation, and
// a text that says no column of it (SELECT *, INSERT without a list) would reach the server
// as if nothing were mapped. The words tell which texts may name such a relation, the tree
// which do (Plan.Lacks).

// lacks reports whether a statement reads, writes or changes a relation that the snapshot does
// not have. The first that one of makers names is the one that it makes.
func lacks(parts []part, n *schema.Names) bool {
	for i := range parts {
		tables := parts[i].st.Tables
		switch kind := parts[i].node.Name(); {
		case kind == "DropStmt":
			continue // whatever it has
		case makers[kind] && len(tables) > 0:
			tables = tables[1:]
		}
		if n.LacksAny(tables) {
			return true
		}
	}
	return false
}

// makers are the statements that make a relation.
var makers = map[string]bool{"CreateStmt": true, "CreateTableAsStmt": true, "CreateForeignTableStmt": true, "ViewStmt": true, "CreateSeqStmt": true}

// unread is the plan of a text that nobody reads: refused where it may name a relation with
// mapped columns.
func unread(n *schema.Names, sql []byte) *Plan {
	if n.Mentions(sql) {
		return unreadMapped
	}
	return guardedPlan
}

// UnreadMapped is the refusal of a text that nobody reads and that may name a relation with
// mapped columns.
func UnreadMapped() Refusal {
	return Refusal{Unsent: true, Code: "0A000", Message: "cannot map the bytea columns of a statement that is not read",
		Detail: "It may name a table with columns that are stored as text (rewrite.bytea), and is too long, too deep or no UTF-8.",
		Hint:   "Send the constants as parameters, or raise rewrite.max_bytes."}
}

var unreadMapped = func() *Plan {
	refusal := UnreadMapped()
	return &Plan{Kind: Unknown, Pin: PinUnparsed, Statements: []Statement{{Kind: Unknown, Pin: PinUnparsed, Refusal: &refusal}}}
}()
