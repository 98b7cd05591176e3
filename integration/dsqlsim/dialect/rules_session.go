package dialect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

func checkSavepoints(q *checkedStatement) *Refusal {
	var name string
	switch q.node.GetTransactionStmt().Kind {
	case pg.TransactionStmtKind_TRANS_STMT_SAVEPOINT:
		name = "SAVEPOINT"
	case pg.TransactionStmtKind_TRANS_STMT_RELEASE:
		name = "RELEASE"
	case pg.TransactionStmtKind_TRANS_STMT_ROLLBACK_TO:
		name = "ROLLBACK TO"
	case pg.TransactionStmtKind_TRANS_STMT_PREPARE:
		name = "PREPARE TRANSACTION"
	case pg.TransactionStmtKind_TRANS_STMT_COMMIT_PREPARED:
		name = "COMMIT PREPARED"
	case pg.TransactionStmtKind_TRANS_STMT_ROLLBACK_PREPARED:
		name = "ROLLBACK PREPARED"
	default:
		return nil
	}
	return notSupportedRefusal("unsupported transaction statement: " + name)
}

func checkBeginIsolation(q *checkedStatement) *Refusal {
	return checkIsolationLevel(q.node.GetTransactionStmt().Options)
}

// checkSetIsolation refuses SET TRANSACTION with an isolation level that DSQL lacks. The rule named settings refuses
// SET TRANSACTION with the level that DSQL has.
func checkSetIsolation(q *checkedStatement) *Refusal {
	if set := q.node.GetVariableSetStmt(); set.Name == "TRANSACTION" {
		return checkIsolationLevel(set.Args)
	}
	return nil
}

// checkIsolationLevel refuses every isolation level except repeatable read, in the options of a transaction.
func checkIsolationLevel(options []*pg.Node) *Refusal {
	for _, option := range options {
		e := option.GetDefElem()
		if e.GetDefname() != "transaction_isolation" {
			continue
		}
		if level := e.Arg.GetAConst().GetSval().GetSval(); level != "repeatable read" {
			return notSupportedRefusal("Unsupported isolation level: " + strings.ToUpper(level))
		}
	}
	return nil
}

func checkChain(q *checkedStatement) *Refusal {
	if t := q.node.GetTransactionStmt(); t.Chain {
		return notSupportedRefusal("unsupported transaction statement: AND CHAIN")
	}
	return nil
}

// settableParameters are the session parameters that DSQL lets a client set (documented, "Supported session
// parameters", 2026). SET LOCAL can set role in addition.
var settableParameters = map[string]bool{
	"application_name": true, "client_encoding": true, "datestyle": true, "extra_float_digits": true,
	"intervalstyle": true, "timezone": true, "search_path": true,
	"enable_bitmapscan": true, "enable_hashjoin": true, "enable_indexonlyscan": true, "enable_indexscan": true,
	"enable_material": true, "enable_mergejoin": true, "enable_nestloop": true, "enable_seqscan": true,
	"dsql.enable_batched_nestloop": true, syncIndexSetting: true,
}

// IsSettable reports whether a client may set a session parameter, by SET or at its startup. Case does not matter.
func IsSettable(name string) bool { return settableParameters[strings.ToLower(name)] }

// UpstreamName returns the name under which PostgreSQL accepts a settable parameter.
func UpstreamName(name string) string {
	if strings.EqualFold(name, syncIndexSetting) {
		return ownSetting
	}
	return name
}

// NotSettableRefusal returns the refusal of a parameter that is not settable.
func NotSettableRefusal(name string) *Refusal {
	return notSupportedRefusal(`setting configuration parameter "` + name + `" not supported`)
}

func checkSettable(q *checkedStatement) *Refusal {
	set := q.node.GetVariableSetStmt()
	local := set.Name == "role" && set.IsLocal
	if set.Kind == pg.VariableSetKind_VAR_RESET_ALL || local || IsSettable(set.Name) {
		return nil
	}
	return NotSettableRefusal(set.Name)
}

// checkUnknownSetting refuses SHOW of parameters that PostgreSQL 16 no longer has.
func checkUnknownSetting(q *checkedStatement) *Refusal {
	switch name := q.node.GetVariableShowStmt().Name; name {
	case "lc_collate", "lc_ctype":
		return &Refusal{undefined, `unrecognized configuration parameter "` + name + `"`}
	}
	return nil
}
