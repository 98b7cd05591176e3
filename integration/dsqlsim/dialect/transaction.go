package dialect

var (
	// The conformance recordings of a real cluster have the message of severalDDL in the cases two_ddl_one_txn and
	// multi_two_ddl.
	severalDDL = &Refusal{notSupported, "multiple ddl statements not supported in a transaction"}
	// The conformance recordings of a real cluster have the message of mixedDDL in the cases ddl_then_dml and
	// multi_ddl_then_dml.
	mixedDDL = &Refusal{notSupported, "ddl and dml are not supported in the same transaction"}
)

// Transaction remembers which kinds of statements (DDL, DML) a transaction has, for rules about several statements.
// The zero value is an empty transaction. It assumes that every statement succeeds, because a cluster refuses the
// rest of a failed transaction anyway.
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
