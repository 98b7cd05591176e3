package dialect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

func savepoints(q *question) *Refusal {
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
	return refuse("unsupported transaction statement: " + name)
}

func isolation(q *question) *Refusal { return otherLevel(q.node.GetTransactionStmt().Options) }

// setIsolation refuses other isolation levels in SET TRANSACTION. Rule settings refuses SET TRANSACTION with the level
// that DSQL has.
func setIsolation(q *question) *Refusal {
	if set := q.node.GetVariableSetStmt(); set.Name == "TRANSACTION" {
		return otherLevel(set.Args)
	}
	return nil
}

// otherLevel refuses every isolation level except repeatable read, in the options of a transaction.
func otherLevel(options []*pg.Node) *Refusal {
	for _, option := range options {
		e := option.GetDefElem()
		if e.GetDefname() != "transaction_isolation" {
			continue
		}
		if level := e.Arg.GetAConst().GetSval().GetSval(); level != "repeatable read" {
			return refuse("Unsupported isolation level: " + strings.ToUpper(level))
		}
	}
	return nil
}

func chain(q *question) *Refusal {
	if t := q.node.GetTransactionStmt(); t.Chain {
		return refuse("unsupported transaction statement: AND CHAIN")
	}
	return nil
}

// settable are the session parameters that DSQL lets a client set (documented, "Supported session parameters", 2026).
// SET LOCAL can set role in addition.
var settable = map[string]bool{
	"application_name": true, "client_encoding": true, "datestyle": true, "extra_float_digits": true,
	"intervalstyle": true, "timezone": true, "search_path": true,
	"enable_bitmapscan": true, "enable_hashjoin": true, "enable_indexonlyscan": true, "enable_indexscan": true,
	"enable_material": true, "enable_mergejoin": true, "enable_nestloop": true, "enable_seqscan": true,
	"dsql.enable_batched_nestloop": true, syncIndexSetting: true,
}

// Settable reports whether a client may set a session parameter, by SET or at its startup. Case does not matter.
func Settable(name string) bool { return settable[strings.ToLower(name)] }

// NameUpstream returns the name under which PostgreSQL accepts a settable parameter.
func NameUpstream(name string) string {
	if strings.EqualFold(name, syncIndexSetting) {
		return ownSetting
	}
	return name
}

// NotSettable returns the refusal of a parameter that is not settable.
func NotSettable(name string) *Refusal {
	return refuse(`setting configuration parameter "` + name + `" not supported`)
}

func settings(q *question) *Refusal {
	set := q.node.GetVariableSetStmt()
	local := set.Name == "role" && set.IsLocal
	if set.Kind == pg.VariableSetKind_VAR_RESET_ALL || local || Settable(set.Name) {
		return nil
	}
	return NotSettable(set.Name)
}

// unknownSetting refuses SHOW of parameters that PostgreSQL 16 no longer has.
func unknownSetting(q *question) *Refusal {
	switch name := q.node.GetVariableShowStmt().Name; name {
	case "lc_collate", "lc_ctype":
		return &Refusal{undefined, `unrecognized configuration parameter "` + name + `"`}
	}
	return nil
}
