package dialect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func checkSelectInto(q *checkedStatement) *Refusal {
	if q.node.GetSelectStmt().IntoClause != nil {
		return notSupportedRefusal("unsupported statement: CreateTableAs")
	}
	return nil
}

func checkVacuum(q *checkedStatement) *Refusal {
	if q.node.GetVacuumStmt().IsVacuumcmd {
		return notSupportedRefusal("unsupported VACUUM statement")
	}
	return nil
}

func checkSetConfig(q *checkedStatement) *Refusal {
	if q.clues&sawSetConfig == 0 {
		return nil
	}
	var refused *Refusal
	WalkMessage(q.node.ProtoReflect(), func(m any) {
		call, ok := m.(*pg.FuncCall)
		if !ok || functionName(call) != "set_config" || len(call.Args) == 0 {
			return
		}
		refused = NotSettableRefusal(call.Args[0].GetAConst().GetSval().GetSval())
	})
	return refused
}

// functionName returns the name of the called function without its schema, in lower case.
func functionName(call *pg.FuncCall) string {
	if n := len(call.GetFuncname()); n > 0 {
		return strings.ToLower(call.Funcname[n-1].GetString_().GetSval())
	}
	return ""
}

// WalkMessage calls visit for a message and all messages below it.
func WalkMessage(m protoreflect.Message, visit func(any)) {
	visit(m.Interface())
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Kind() != protoreflect.MessageKind:
		case field.IsList():
			for i := range v.List().Len() {
				WalkMessage(v.List().Get(i).Message(), visit)
			}
		default:
			WalkMessage(v.Message(), visit)
		}
		return true
	})
}
