package rewrite

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// maxTables is the greatest number of plans in a tablePlanCache.
const maxTables = 250

// tablePlanCache caches plans for texts that Sluice plans by their words, without a parse. The key is the verb and the
// table. A lookup takes no lock and allocates nothing. An addition copies the map, which is small. Only plans of
// statements that succeeded are cached, so that clients cannot fill the cache with invented names.
type tablePlanCache struct {
	plans atomic.Pointer[map[string]*Plan]

	mu sync.Mutex
	// turnedAway counts the plans that the full cache did not take since its last eviction.
	turnedAway int
}

func newTablePlanCache() *tablePlanCache {
	t := &tablePlanCache{}
	t.plans.Store(&map[string]*Plan{})
	return t
}

// planForTable returns a plan like byWords, the plan by a text's words, with the table's name in the plan's Operation.
func (t *tablePlanCache) planForTable(byWords *Plan, table []byte) *Plan {
	if len(table) == 0 || len(table) > parse.MaxName {
		return byWords
	}
	var buf [2*parse.MaxName + 2]byte
	key := append(buf[:0], byWords.Operation...)
	if byWords.Contends {
		key = append(key, '!') // an INSERT has two plans: one that contends (ON CONFLICT DO UPDATE), and a plain one
	}
	key = append(append(key, ' '), table...)
	if plan := (*t.plans.Load())[string(key)]; plan != nil {
		return plan
	}
	name := operationName(byWords.Operation + "_" + string(table))
	plan := &Plan{Kind: byWords.Kind, Operation: name, Contends: byWords.Contends, Statements: []Statement{byWords.Statements[0]}, unsure: byWords.unsure,
		table: string(key)}
	plan.Statements[0].Operation = name
	return plan
}

// RecordSuccess records that a statement of a plan has succeeded. A plan for the tablePlanCache is then cached.
func (p *Planner) RecordSuccess(plan *Plan) {
	if plan.table != "" && !plan.ran.Load() {
		plan.ran.Store(true)
		p.tables.cachePlan(plan)
	}
}

// cachePlan caches a plan by its verb and table, unless the cache is full. After it has refused maxTables plans, it
// removes the plans that were not used since the last removal.
func (t *tablePlanCache) cachePlan(plan *Plan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := *t.plans.Load()
	if kept[plan.table] != nil {
		return
	}
	if len(kept) >= maxTables {
		if t.turnedAway++; t.turnedAway < maxTables {
			return
		}
		t.turnedAway = 0
		kept = maps.Clone(kept)
		maps.DeleteFunc(kept, func(_ string, p *Plan) bool { return !p.ran.Swap(false) })
		t.plans.Store(&kept)
		return
	}
	grown := maps.Clone(kept)
	grown[plan.table] = plan
	t.plans.Store(&grown)
}

// operationName returns s as a name for metrics. It makes letters lower-case, and replaces all characters except
// letters, digits and _ by _. The result is at most parse.MaxName bytes long.
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
	return name[:min(len(name), parse.MaxName)]
}

// operationVerbs maps statement types to their verbs in metrics. The verb of other types is their name in snake case.
var operationVerbs = map[string]string{
	"SelectStmt": "select", "InsertStmt": "insert", "UpdateStmt": "update", "DeleteStmt": "delete", "MergeStmt": "merge",
	"IndexStmt": "create_index", "CreateStmt": "create_table", "CreateTableAsStmt": "create_table_as",
	"CreateSeqStmt": "create_sequence", "ViewStmt": "create_view", "CreatedbStmt": "create_database",
	"DropdbStmt": "drop_database", "CreateTrigStmt": "create_trigger", "VariableSetStmt": "set",
	"VariableShowStmt": "show", "ClosePortalStmt": "close", "AlterTableStmt": "alter_table", "TruncateStmt": "truncate",
}

// verbsWithTable are the verbs whose operation name also contains the first table's name, as in select_shards.
var verbsWithTable = map[string]bool{"select": true, "insert": true, "update": true, "delete": true, "merge": true,
	"create_table": true, "create_index": true, "alter_table": true, "truncate": true}

// statementOperation returns the name of a statement in metrics: its verb, and for some verbs the first table's name.
func statementOperation(m parse.TreeNode, st *Statement) string {
	if m.Is("TransactionStmt") {
		return transactionVerbs[st.Tx.Verb]
	}
	verb, ok := operationVerbs[m.TypeName()]
	if !ok {
		verb = snake(strings.TrimSuffix(m.TypeName(), "Stmt"))
	}
	if !verbsWithTable[verb] || len(st.Tables) == 0 {
		return verb
	}
	table := st.Tables[0]
	return operationName(verb + "_" + table[strings.LastIndexByte(table, '.')+1:])
}

var transactionVerbs = map[TxVerb]string{
	Begin: "begin", Commit: "commit", Rollback: "rollback", Savepoint: "savepoint", ReleaseSavepoint: "release",
	RollbackTo: "rollback_to", PrepareTransaction: "prepare_transaction", CommitPrepared: "commit_prepared",
	RollbackPrepared: "rollback_prepared",
}

// snake converts a name like AlterSystem to snake case: alter_system.
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
