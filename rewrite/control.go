package rewrite

import (
	"iter"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// transaction reads BEGIN, COMMIT and the like.
func transaction(m message) Transaction {
	t := Transaction{Chain: m.flag("chain"), Name: m.text("savepoint_name") + m.text("gid")}
	switch pg_query.TransactionStmtKind(m.integer("kind")) {
	case pg_query.TransactionStmtKind_TRANS_STMT_BEGIN, pg_query.TransactionStmtKind_TRANS_STMT_START:
		t.Verb = Begin
	case pg_query.TransactionStmtKind_TRANS_STMT_COMMIT:
		t.Verb = Commit
	case pg_query.TransactionStmtKind_TRANS_STMT_ROLLBACK:
		t.Verb = Rollback
	case pg_query.TransactionStmtKind_TRANS_STMT_SAVEPOINT:
		t.Verb = Savepoint
	case pg_query.TransactionStmtKind_TRANS_STMT_RELEASE:
		t.Verb = ReleaseSavepoint
	case pg_query.TransactionStmtKind_TRANS_STMT_ROLLBACK_TO:
		t.Verb = RollbackTo
	case pg_query.TransactionStmtKind_TRANS_STMT_PREPARE:
		t.Verb = PrepareTransaction
	case pg_query.TransactionStmtKind_TRANS_STMT_COMMIT_PREPARED:
		t.Verb = CommitPrepared
	case pg_query.TransactionStmtKind_TRANS_STMT_ROLLBACK_PREPARED:
		t.Verb = RollbackPrepared
	}
	t.options(m.list("options"))
	return t
}

// options reads the modes of a transaction.
func (t *Transaction) options(options iter.Seq[message]) {
	for option := range options {
		arg := option.child("arg")
		on := arg.child("ival").integer("ival") != 0
		switch option.text("defname") {
		case "transaction_isolation":
			t.Isolation = isolations[arg.child("sval").text("sval")]
		case "transaction_read_only":
			t.ReadOnly, t.ReadWrite = t.ReadOnly || on, t.ReadWrite || !on
		case "transaction_deferrable":
			t.Deferrable, t.Waits = true, on
		}
	}
}

var isolations = map[string]Isolation{
	"read uncommitted": ReadUncommitted,
	"read committed":   ReadCommitted,
	"repeatable read":  RepeatableRead,
	"serializable":     Serializable,
}

// setTransaction reads SET TRANSACTION and SET SESSION CHARACTERISTICS.
func (st *Statement) setTransaction(m message, local bool) {
	switch m.text("name") {
	case "SESSION CHARACTERISTICS":
		st.Tx.Verb = SetSessionCharacteristics
		st.Tx.options(m.list("args"))
		action := Set
		if local {
			action = SetLocal
		}
		for option := range m.list("args") {
			st.Changes = append(st.Changes, characteristic(option, action))
		}
	case "TRANSACTION SNAPSHOT":
		st.Kind = Control
		st.Tx.Verb = SetTransaction
		_, st.Tx.Snapshot, _ = values(m.list("args"))
	default:
		st.Kind = Control
		st.Tx.Verb = SetTransaction
		st.Tx.options(m.list("args"))
	}
}

// characteristic is the setting behind an option of SET SESSION CHARACTERISTICS.
func characteristic(option message, action Action) Change {
	arg := option.child("arg")
	text := arg.child("sval").text("sval")
	if text == "" {
		text = "off"
		if arg.child("ival").integer("ival") != 0 {
			text = "on"
		}
	}
	return Change{Action: action, Name: "default_" + option.text("defname"), SQL: literal(text), Text: text}
}
