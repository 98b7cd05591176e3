package dialect

var (
	// The message of this refusal is recorded under two_ddl_one_txn and multi_two_ddl.
	severalDDL = &Refusal{notSupported, "multiple ddl statements not supported in a transaction"}
	// The message of this refusal is recorded under ddl_then_dml and multi_ddl_then_dml.
	mixedDDL = &Refusal{notSupported, "ddl and dml are not supported in the same transaction"}
)

// Transaction remembers the kinds of statements in a transaction, for rules about several statements. The zero value is
// an empty transaction. It assumes that every statement succeeds, because after a failure the rest of a transaction is
// refused anyway.
type Transaction struct{ ddl, dml bool }

// AddStatement adds a statement to the transaction, or returns the refusal if the statement cannot follow the earlier
// ones.
func (t *Transaction) AddStatement(s *Statement) *Refusal {
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
