// Package access emulates default_transaction_read_only on a server that does not know this setting. As in PostgreSQL,
// the value at the start of a transaction applies. Package proxy reads the value where a transaction may begin: at the
// start of a turn, and after a COMMIT in the middle of a turn.
//
//	BEGIN              Sluice sends BEGIN READ ONLY, unless it says READ WRITE; the server then refuses writes
//	outside a block    Sluice judges by the SQL. A write gets PostgreSQL's error 25006, in a multi-statement query
//	                   at its place. Sluice refuses a statement that may write, by a function, with 0A000
//	SHOW transaction_read_only   Sluice answers outside a block
//
// 25006 precedes errors about names, which only the server knows. For an unknown table PostgreSQL would return 42P01.
//
// The package sends nothing. Its rules need a statement's plan, the session's block and the client's settings.
package access

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Mode is the access mode with which a transaction begins.
type Mode uint8

const (
	ReadWrite Mode = iota
	ReadOnly
	Unsure // depends on the end of the previous transaction, whose reply is pending
)

// CodeReadOnly is the SQLSTATE of a write in a READ ONLY transaction.
const CodeReadOnly = "25006"

// Setting is the setting that shows the access mode of the current transaction.
const Setting = "transaction_read_only"

// NextMode returns the access mode of a transaction that begins now, by the client's settings.
func NextMode(s *settings.Client) Mode {
	switch {
	case s.IsReadOnlyPending():
		return Unsure
	case s.IsReadOnlyByDefault():
		return ReadOnly
	}
	return ReadWrite
}

// mayChangeMode reports whether a statement may change the access mode of later transactions. A RESET ALL may if
// default_transaction_read_only is on, or if the startup message set it. A set_config of another setting may not.
func mayChangeMode(st *rewrite.Statement, s *settings.Client) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.SettingChange) bool {
		switch c.Action {
		case rewrite.ResetAll, rewrite.DiscardAll:
			return s.IsReadOnlyByDefault() || s.Startup.StartupLocal[rewrite.ReadOnlyDefault] != ""
		}
		return c.Name == rewrite.ReadOnlyDefault
	})
}

// LacksMode reports whether a statement is a BEGIN that names neither READ ONLY nor READ WRITE.
func LacksMode(tx *rewrite.TxControl) bool {
	return tx.Verb == rewrite.Begin && !tx.ReadOnly && !tx.ReadWrite
}

// BeginSQL returns a BEGIN with the modes of tx and with mode, READ ONLY or READ WRITE. word is BEGIN or START
// TRANSACTION. REPEATABLE READ is left out, because DSQL has no other level.
func BeginSQL(word string, tx *rewrite.TxControl, mode string) string {
	text := word
	if tx.Isolation != rewrite.DefaultIsolation && tx.Isolation != rewrite.RepeatableRead {
		text += " ISOLATION LEVEL " + tx.Isolation.String()
	}
	switch {
	case tx.Waits:
		text += " DEFERRABLE"
	case tx.Deferrable:
		text += " NOT DEFERRABLE"
	}
	return text + " " + mode
}

// HasTransactionDefaults reports whether a client has a default_transaction_ setting. If so, Sluice must send the
// server a RESET. All frames up to a Sync share one transaction, whose modes the first frame fixes.
func HasTransactionDefaults(c *settings.Client) bool {
	for _, set := range [...]*settings.Values{c.InForce, c.Startup} {
		for name := range set.SQL {
			if strings.HasPrefix(name, "default_transaction_") {
				return true
			}
		}
	}
	return false
}

// BeginWord returns the client's own word for the BEGIN st of the text sql, BEGIN or START TRANSACTION.
func BeginWord(st *rewrite.Statement, sql []byte) string {
	if text := sql[min(st.Start, len(sql)):]; len(text) >= 5 && strings.EqualFold(string(text[:5]), "start") {
		return "START TRANSACTION"
	}
	return "BEGIN"
}

// CanFoldModes reports whether the modes of a SET TRANSACTION can be added to the BEGIN before it. DSQL accepts modes
// only in BEGIN, and has one isolation level. So only READ ONLY and READ WRITE matter.
func CanFoldModes(tx *rewrite.TxControl) bool {
	return tx.Verb == rewrite.SetTransaction && (tx.ReadOnly || tx.ReadWrite) &&
		tx.Isolation != rewrite.Serializable && tx.Snapshot == "" && !tx.Deferrable
}
