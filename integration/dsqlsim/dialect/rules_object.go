package dialect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// defineCache is the end of the message that refuses a sequence or an identity column without a valid CACHE.
const defineCache = "please define CACHE greater than or equal to 65536 or equal to 1"

// manyCached is the least value of CACHE, besides 1, that DSQL accepts for a sequence.
const manyCached = 65536

func checkCreateIndex(q *checkedStatement) *Refusal {
	i := q.node.GetIndexStmt()
	switch {
	case i.Concurrent:
		return notSupportedRefusal("CONCURRENTLY not supported for CREATE INDEX")
	case !q.async:
		return notSupportedRefusal("unsupported mode. please use CREATE INDEX ASYNC.")
	case newOutline(q.text).clues&sawUsing != 0: // the tree says btree either way
		return notSupportedRefusal("USING not supported for CREATE INDEX")
	case len(i.Options) > 0:
		return notSupportedRefusal("WITH not supported for CREATE INDEX")
	case i.TableSpace != "":
		return notSupportedRefusal("TABLESPACE not supported for CREATE INDEX")
	}
	for _, n := range i.IndexParams {
		e := n.GetIndexElem()
		switch {
		case e.Ordering != pg.SortByDir_SORTBY_DEFAULT:
			return notSupportedRefusal("specifying sort order not supported for index keys")
		case len(e.Opclass) > 0:
			return notSupportedRefusal("opclass not supported for index keys")
		case len(e.Collation) > 0:
			return notSupportedRefusal("COLLATE clause not supported")
		}
	}
	return nil
}

func checkCreateSequence(q *checkedStatement) *Refusal {
	s := q.node.GetCreateSeqStmt()
	if s.Sequence.Relpersistence == "t" {
		return notSupportedRefusal("TEMPORARY or TEMP sequence not supported for CREATE SEQUENCE")
	}
	if q.withoutOwners && sequenceOption(s.Options, "owned_by") != nil {
		return notSupportedRefusal("OWNED BY not supported for CREATE SEQUENCE")
	}
	if !hasValidCache(s.Options) {
		return notSupportedRefusal("CREATE SEQUENCE is not supported without an explicit cache size. " + defineCache)
	}
	if as := sequenceOption(s.Options, "as").GetTypeName(); as != nil && typeName(as) != "int8" {
		return notSupportedRefusal("datatype " + displayName(as) + " not supported, sequence type must be bigint")
	}
	return nil
}

func checkAlterSequence(q *checkedStatement) *Refusal {
	s := q.node.GetAlterSeqStmt()
	switch {
	case sequenceOption(s.Options, "cache") != nil && !hasValidCache(s.Options):
		return notSupportedRefusal("ALTER SEQUENCE is not supported with this cache size. " + defineCache)
	case q.withoutOwners && sequenceOption(s.Options, "owned_by") != nil:
		return notSupportedRefusal("OWNED BY not supported for ALTER SEQUENCE")
	case sequenceOption(s.Options, "as") != nil:
		return notSupportedRefusal("AS not supported for ALTER SEQUENCE")
	}
	return nil
}

// sequenceOption returns the value of an option of a sequence, nil if the option is absent.
func sequenceOption(options []*pg.Node, name string) *pg.Node {
	for _, n := range options {
		if e := n.GetDefElem(); e.GetDefname() == name {
			return e.Arg
		}
	}
	return nil
}

// hasValidCache reports whether the options of a sequence have a CACHE that DSQL accepts.
func hasValidCache(options []*pg.Node) bool {
	for _, n := range options {
		e := n.GetDefElem()
		if e.GetDefname() != "cache" {
			continue
		}
		size := e.Arg.GetInteger().GetIval()
		// The parser represents a CACHE size beyond 32 bits as a Float.
		return size == 1 || size >= manyCached || e.Arg.GetFloat() != nil
	}
	return false
}

func checkTemporaryView(q *checkedStatement) *Refusal {
	if q.node.GetViewStmt().View.Relpersistence == "t" {
		return notSupportedRefusal("TEMPORARY or TEMP view not supported for CREATE VIEW")
	}
	return nil
}

func checkCreateFunction(q *checkedStatement) *Refusal {
	f := q.node.GetCreateFunctionStmt()
	if f.IsProcedure {
		return notSupportedRefusal("PROCEDURE is not supported")
	}
	for _, n := range f.Options {
		e := n.GetDefElem()
		if language := strings.ToLower(e.Arg.GetString_().GetSval()); e.Defname == "language" && language != "sql" {
			return notSupportedRefusal("CREATE FUNCTION with language " + language + " not supported")
		}
	}
	return nil
}

// systemSchemas are the schemas that belong to the cluster.
var systemSchemas = wordSet("public sys pg_catalog information_schema")

const systemEntity = "feature not supported on system entity"

// checkSystemGrant refuses a GRANT or REVOKE on the system's schemas, and on objects in them, except objects in schema
// public.
func checkSystemGrant(q *checkedStatement) *Refusal {
	g := q.node.GetGrantStmt()
	if g.Targtype != pg.GrantTargetType_ACL_TARGET_OBJECT {
		return nil
	}
	for _, n := range g.Objects {
		schema := n.GetRangeVar().GetSchemaname()
		if systemSchemas[n.GetString_().GetSval()] && g.Objtype == pg.ObjectType_OBJECT_SCHEMA ||
			systemSchemas[schema] && schema != "public" {
			return notSupportedRefusal(systemEntity)
		}
	}
	return nil
}

// checkDropSystemSchema refuses to drop a schema that belongs to the cluster (systemSchemas).
func checkDropSystemSchema(q *checkedStatement) *Refusal {
	d := q.node.GetDropStmt()
	if d.RemoveType != pg.ObjectType_OBJECT_SCHEMA {
		return nil
	}
	for _, n := range d.Objects {
		if systemSchemas[n.GetString_().GetSval()] {
			return notSupportedRefusal(systemEntity)
		}
	}
	return nil
}

// droppableObjects are the kinds of objects that a cluster can create, and hence drop.
var droppableObjects = map[pg.ObjectType]bool{
	pg.ObjectType_OBJECT_TABLE: true, pg.ObjectType_OBJECT_INDEX: true, pg.ObjectType_OBJECT_VIEW: true,
	pg.ObjectType_OBJECT_SEQUENCE: true, pg.ObjectType_OBJECT_SCHEMA: true, pg.ObjectType_OBJECT_DOMAIN: true,
	pg.ObjectType_OBJECT_FUNCTION: true, pg.ObjectType_OBJECT_STATISTIC_EXT: true,
}

// renamableParts are the kinds of objects that a cluster can rename, besides droppableObjects.
var renamableParts = map[pg.ObjectType]bool{
	pg.ObjectType_OBJECT_COLUMN: true, pg.ObjectType_OBJECT_TABCONSTRAINT: true,
	pg.ObjectType_OBJECT_DOMCONSTRAINT: true, pg.ObjectType_OBJECT_ROLE: true,
}

func checkDrop(q *checkedStatement) *Refusal {
	switch d := q.node.GetDropStmt(); {
	case !droppableObjects[d.RemoveType]:
		return notSupportedRefusal("unsupported object in DROP statement")
	case d.Concurrent:
		return notSupportedRefusal("CONCURRENTLY not supported for DROP INDEX")
	}
	return nil
}

func checkRename(q *checkedStatement) *Refusal {
	if r := q.node.GetRenameStmt(); !droppableObjects[r.RenameType] && !renamableParts[r.RenameType] {
		return notSupportedRefusal("unsupported object in RENAME statement")
	}
	return nil
}

func checkAlterOwner(q *checkedStatement) *Refusal {
	if q.node.GetAlterOwnerStmt().ObjectType == pg.ObjectType_OBJECT_TYPE {
		return notSupportedRefusal("ALTER TYPE not supported")
	}
	return nil
}

// checkAlterDomain refuses the forms of ALTER DOMAIN that narrow a domain. DROP CONSTRAINT and VALIDATE CONSTRAINT are
// not recorded.
func checkAlterDomain(q *checkedStatement) *Refusal {
	if q.domainChanges {
		return nil
	}
	switch q.node.GetAlterDomainStmt().Subtype {
	case "C":
		return notSupportedRefusal("unsupported ALTER DOMAIN ADD CONSTRAINT statement")
	case "O":
		return notSupportedRefusal("unsupported ALTER DOMAIN SET NOT NULL statement")
	}
	return nil
}

// checkDomainCascade refuses DROP DOMAIN with CASCADE, which would drop columns of the domain's type.
func checkDomainCascade(q *checkedStatement) *Refusal {
	if d := q.node.GetDropStmt(); !q.domainChanges && d.RemoveType == pg.ObjectType_OBJECT_DOMAIN && d.Behavior == pg.DropBehavior_DROP_CASCADE {
		return notSupportedRefusal("DROP DOMAIN with CASCADE unsupported")
	}
	return nil
}

// checkSequenceDefaults refuses nextval in the default of a column, with Options.WithoutSequenceDefaults.
func checkSequenceDefaults(q *checkedStatement) *Refusal {
	if !q.withoutDefaults {
		return nil
	}
	refused := notSupportedRefusal("function nextval not supported in a DEFAULT expression")
	draws := func(n *pg.Node) (found bool) {
		WalkMessage(n.ProtoReflect(), func(m any) {
			f, ok := m.(*pg.FuncCall)
			found = found || ok && functionName(f) == "nextval"
		})
		return found
	}
	for _, element := range q.node.GetCreateStmt().GetTableElts() {
		for _, n := range element.GetColumnDef().GetConstraints() {
			if con := n.GetConstraint(); con.GetContype() == pg.ConstrType_CONSTR_DEFAULT && draws(con.RawExpr) {
				return refused
			}
		}
	}
	for _, n := range q.node.GetAlterTableStmt().GetCmds() {
		if cmd := n.GetAlterTableCmd(); cmd.Subtype == pg.AlterTableType_AT_ColumnDefault && cmd.Def != nil && draws(cmd.Def) {
			return refused
		}
	}
	return nil
}
