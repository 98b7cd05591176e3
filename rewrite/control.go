package rewrite

import (
	"iter"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// parseTransaction returns the verb and the options of a statement that controls transactions, such as COMMIT.
func parseTransaction(m parse.TreeNode) TxControl {
	t := TxControl{Chain: m.Flag("chain"), Name: m.Text("savepoint_name") + m.Text("gid")}
	switch parse.TransactionStmtKind(m.Integer("kind")) {
	case parse.TRANS_STMT_BEGIN, parse.TRANS_STMT_START:
		t.Verb = Begin
	case parse.TRANS_STMT_COMMIT:
		t.Verb = Commit
	case parse.TRANS_STMT_ROLLBACK:
		t.Verb = Rollback
	case parse.TRANS_STMT_SAVEPOINT:
		t.Verb = Savepoint
	case parse.TRANS_STMT_RELEASE:
		t.Verb = ReleaseSavepoint
	case parse.TRANS_STMT_ROLLBACK_TO:
		t.Verb = RollbackTo
	case parse.TRANS_STMT_PREPARE:
		t.Verb = PrepareTransaction
	case parse.TRANS_STMT_COMMIT_PREPARED:
		t.Verb = CommitPrepared
	case parse.TRANS_STMT_ROLLBACK_PREPARED:
		t.Verb = RollbackPrepared
	}
	t.addOptions(m.List("options"))
	return t
}

// addOptions adds to t the modes in a BEGIN or SET TRANSACTION, such as READ ONLY.
func (t *TxControl) addOptions(options iter.Seq[parse.TreeNode]) {
	for option := range options {
		arg := option.Child("arg")
		on := arg.Child("ival").Integer("ival") != 0
		switch option.Text("defname") {
		case "transaction_isolation":
			t.Isolation = isolations[arg.Child("sval").Text("sval")]
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

// setTransaction records, in the statement's plan, the effects of SET TRANSACTION or SET SESSION CHARACTERISTICS.
func (st *Statement) setTransaction(m parse.TreeNode, local bool) {
	switch m.Text("name") {
	case "SESSION CHARACTERISTICS":
		st.Tx.Verb = SetSessionCharacteristics
		st.Tx.addOptions(m.List("args"))
		action := Set
		if local {
			action = SetLocal
		}
		for option := range m.List("args") {
			st.Changes = append(st.Changes, sessionCharacteristic(option, action))
		}
	case "TRANSACTION SNAPSHOT":
		st.Kind, st.Does = Control, SetsModes
		st.Tx.Verb = SetTransaction
		_, st.Tx.Snapshot, _ = settingValue(m.List("args"))
	default:
		st.Kind, st.Does = Control, SetsModes
		st.Tx.Verb = SetTransaction
		st.Tx.addOptions(m.List("args"))
	}
}

// sessionCharacteristic returns the change of a setting that one option of SET SESSION CHARACTERISTICS makes.
func sessionCharacteristic(option parse.TreeNode, action SettingAction) SettingChange {
	arg := option.Child("arg")
	text := arg.Child("sval").Text("sval")
	if text == "" {
		text = "off"
		if arg.Child("ival").Integer("ival") != 0 {
			text = "on"
		}
	}
	return SettingChange{Action: action, Name: "default_" + option.Text("defname"), SQL: parse.QuoteLiteral(text), Text: text}
}
