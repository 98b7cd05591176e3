package rewrite

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// maxOperations bounds the names of operations that one planner gives: they
// label metrics, and clients choose the names of tables.
const maxOperations = 250

// otherOperation stands for all beyond the bound.
const otherOperation = "other"

// operations are the names given so far. Finding one takes no lock and
// allocates nothing; there are few, so that adding may copy them all.
type operations struct {
	names atomic.Pointer[map[string]string]
	plans atomic.Pointer[map[string]*Plan] // of scanned texts, by verb and table

	mu sync.Mutex
}

func newOperations() *operations {
	o := &operations{}
	o.names.Store(&map[string]string{})
	o.plans.Store(&map[string]*Plan{})
	return o
}

// name bounds a name: beyond the bound it is otherOperation.
func (o *operations) name(name string) string {
	if known, ok := (*o.names.Load())[name]; ok {
		return known
	}
	if o.full() {
		return otherOperation
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	old := *o.names.Load()
	if _, ok := old[name]; ok {
		return name
	}
	if len(old) >= maxOperations {
		return otherOperation
	}
	grown := maps.Clone(old)
	grown[name] = name
	o.names.Store(&grown)
	return name
}

// full reports that there will be no new names.
func (o *operations) full() bool {
	return len(*o.names.Load()) >= maxOperations || len(*o.plans.Load()) >= maxOperations
}

// planOf is the plan of a text that the words alone told, with its operation.
func (o *operations) planOf(told *Plan, table []byte) *Plan {
	if len(table) == 0 || len(table) > maxName {
		return told
	}
	var buf [2*maxName + 2]byte
	key := append(buf[:0], told.Operation...)
	if told.Contends {
		key = append(key, '!') // INSERT has plans of both kinds
	}
	key = append(append(key, ' '), table...)
	if plan := (*o.plans.Load())[string(key)]; plan != nil {
		return plan
	}
	if o.full() {
		return told
	}
	name := o.name(operationName(told.Operation + "_" + string(table)))
	o.mu.Lock()
	defer o.mu.Unlock()
	old := *o.plans.Load()
	if plan := old[string(key)]; plan != nil {
		return plan
	}
	if len(old) >= maxOperations || name == otherOperation {
		return told
	}
	plan := &Plan{Kind: told.Kind, Operation: name, Contends: told.Contends, Statements: []Statement{told.Statements[0]}, unsure: told.unsure}
	plan.Statements[0].Operation = name
	grown := maps.Clone(old)
	grown[string(key)] = plan
	o.plans.Store(&grown)
	return plan
}

// operationName makes a name of lower-case letters, digits and _.
func operationName(s string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '_':
			return r
		}
		return '_'
	}, s)
	return name[:min(len(name), maxName)]
}

// verbs are the operations of statements that are not named after their node.
var verbs = map[string]string{
	"SelectStmt": "select", "InsertStmt": "insert", "UpdateStmt": "update", "DeleteStmt": "delete", "MergeStmt": "merge",
	"IndexStmt": "create_index", "CreateStmt": "create_table", "CreateTableAsStmt": "create_table_as",
	"CreateSeqStmt": "create_sequence", "ViewStmt": "create_view", "CreatedbStmt": "create_database",
	"DropdbStmt": "drop_database", "CreateTrigStmt": "create_trigger", "VariableSetStmt": "set",
	"VariableShowStmt": "show", "ClosePortalStmt": "close", "AlterTableStmt": "alter_table", "TruncateStmt": "truncate",
}

// tabled verbs carry the first table's name behind them.
var tabled = map[string]bool{"select": true, "insert": true, "update": true, "delete": true, "merge": true,
	"create_table": true, "create_index": true, "alter_table": true, "truncate": true}

// operationOf names a statement: by verb and first table, such as select_shards.
func operationOf(m message, st *Statement) string {
	if m.is("TransactionStmt") {
		return transactionVerbs[st.Tx.Verb]
	}
	verb, ok := verbs[m.name()]
	if !ok {
		verb = snake(strings.TrimSuffix(m.name(), "Stmt"))
	}
	if !tabled[verb] || len(st.Tables) == 0 {
		return verb
	}
	table := st.Tables[0]
	return operationName(verb + "_" + table[strings.LastIndexByte(table, '.')+1:])
}

var transactionVerbs = map[Verb]string{
	Begin: "begin", Commit: "commit", Rollback: "rollback", Savepoint: "savepoint", ReleaseSavepoint: "release",
	RollbackTo: "rollback_to", PrepareTransaction: "prepare_transaction", CommitPrepared: "commit_prepared",
	RollbackPrepared: "rollback_prepared",
}

// snake writes AlterSystem as alter_system.
func snake(s string) string {
	var b strings.Builder
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}
