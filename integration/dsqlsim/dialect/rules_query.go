package dialect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func selectInto(q *question) *Refusal {
	if q.node.GetSelectStmt().IntoClause != nil {
		return refuse("unsupported statement: CreateTableAs")
	}
	return nil
}

func vacuum(q *question) *Refusal {
	if q.node.GetVacuumStmt().IsVacuumcmd {
		return refuse("unsupported VACUUM statement")
	}
	return nil
}

func setConfigCalls(q *question) *Refusal {
	if q.clues&sawSetConfig == 0 {
		return nil
	}
	var refused *Refusal
	Walk(q.node.ProtoReflect(), func(m any) {
		call, ok := m.(*pg.FuncCall)
		if !ok || functionName(call) != "set_config" || len(call.Args) == 0 {
			return
		}
		refused = NotSettable(call.Args[0].GetAConst().GetSval().GetSval())
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

// Walk calls visit for a message and all messages below it.
func Walk(m protoreflect.Message, visit func(any)) {
	visit(m.Interface())
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Kind() != protoreflect.MessageKind:
		case field.IsList():
			for i := range v.List().Len() {
				Walk(v.List().Get(i).Message(), visit)
			}
		default:
			Walk(v.Message(), visit)
		}
		return true
	})
}
