package dialect

var (
	// recorded: two_ddl_one_txn, multi_two_ddl.
	severalDDL = &Refusal{notSupported, "multiple ddl statements not supported in a transaction"}
	// recorded: ddl_then_dml, multi_ddl_then_dml.
	mixedDDL = &Refusal{notSupported, "ddl and dml are not supported in the same transaction"}
)

// Transaction remembers what a transaction has done so far, for the rules that
// look at more than one statement. The zero value is a transaction that has done
// nothing. It takes every statement for a success: after a failure the rest of
// the transaction is refused anyhow.
type Transaction struct{ ddl, dml bool }

// Next adds a statement, or tells why it cannot follow those before it.
func (t *Transaction) Next(s *Statement) *Refusal {
	switch s.Kind {
	case Commit, Rollback:
		*t = Transaction{}
	case DDL:
		switch {
		case t.ddl:
			return severalDDL
		case t.dml:
			return mixedDDL
		}
		t.ddl = true
	case DML:
		if t.ddl {
			return mixedDDL
		}
		t.dml = true
	}
	return nil
}
