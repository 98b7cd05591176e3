package dialect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// defineCache is the end of the message that refuses a sequence or an identity column without a valid CACHE.
const defineCache = "please define CACHE greater than or equal to 65536 or equal to 1"

// manyCached is the least CACHE above 1 that DSQL accepts.
const manyCached = 65536

func indexForm(q *question) *Refusal {
	i := q.node.GetIndexStmt()
	switch {
	case i.Concurrent:
		return refuse("CONCURRENTLY not supported for CREATE INDEX")
	case !q.async:
		return refuse("unsupported mode. please use CREATE INDEX ASYNC.")
	case draw(q.text).clues&sawUsing != 0: // the tree says btree either way
		return refuse("USING not supported for CREATE INDEX")
	case len(i.Options) > 0:
		return refuse("WITH not supported for CREATE INDEX")
	case i.TableSpace != "":
		return refuse("TABLESPACE not supported for CREATE INDEX")
	}
	for _, n := range i.IndexParams {
		e := n.GetIndexElem()
		switch {
		case e.Ordering != pg.SortByDir_SORTBY_DEFAULT:
			return refuse("specifying sort order not supported for index keys")
		case len(e.Opclass) > 0:
			return refuse("opclass not supported for index keys")
		case len(e.Collation) > 0:
			return refuse("COLLATE clause not supported")
		}
	}
	return nil
}

func sequence(q *question) *Refusal {
	s := q.node.GetCreateSeqStmt()
	if s.Sequence.Relpersistence == "t" {
		return refuse("TEMPORARY or TEMP sequence not supported for CREATE SEQUENCE")
	}
	if q.withoutOwners && option(s.Options, "owned_by") != nil {
		return refuse("OWNED BY not supported for CREATE SEQUENCE")
	}
	if !cached(s.Options) {
		return refuse("CREATE SEQUENCE is not supported without an explicit cache size. " + defineCache)
	}
	if as := option(s.Options, "as").GetTypeName(); as != nil && typeName(as) != "int8" {
		return refuse("datatype " + display(as) + " not supported, sequence type must be bigint")
	}
	return nil
}

func alterSequence(q *question) *Refusal {
	s := q.node.GetAlterSeqStmt()
	switch {
	case option(s.Options, "cache") != nil && !cached(s.Options):
		return refuse("ALTER SEQUENCE is not supported with this cache size. " + defineCache)
	case q.withoutOwners && option(s.Options, "owned_by") != nil:
		return refuse("OWNED BY not supported for ALTER SEQUENCE")
	case option(s.Options, "as") != nil:
		return refuse("AS not supported for ALTER SEQUENCE")
	}
	return nil
}

// option returns the value of an option of a sequence, nil if the option is absent.
func option(options []*pg.Node, name string) *pg.Node {
	for _, n := range options {
		if e := n.GetDefElem(); e.GetDefname() == name {
			return e.Arg
		}
	}
	return nil
}

// cached reports whether the options of a sequence have a CACHE that DSQL accepts.
func cached(options []*pg.Node) bool {
	for _, n := range options {
		e := n.GetDefElem()
		if e.GetDefname() != "cache" {
			continue
		}
		size := e.Arg.GetInteger().GetIval()
		// The parser represents a size beyond 32 bits as a Float.
		return size == 1 || size >= manyCached || e.Arg.GetFloat() != nil
	}
	return false
}

func temporaryView(q *question) *Refusal {
	if q.node.GetViewStmt().View.Relpersistence == "t" {
		return refuse("TEMPORARY or TEMP view not supported for CREATE VIEW")
	}
	return nil
}

func function(q *question) *Refusal {
	f := q.node.GetCreateFunctionStmt()
	if f.IsProcedure {
		return refuse("PROCEDURE is not supported")
	}
	for _, n := range f.Options {
		e := n.GetDefElem()
		if language := strings.ToLower(e.Arg.GetString_().GetSval()); e.Defname == "language" && language != "sql" {
			return refuse("CREATE FUNCTION with language " + language + " not supported")
		}
	}
	return nil
}

// systemSchemas are the schemas that belong to the cluster.
var systemSchemas = words("public sys pg_catalog information_schema")

const systemEntity = "feature not supported on system entity"

// systemGrant refuses a GRANT or REVOKE on the system's schemas, and on objects in them, except objects in schema
// public.
func systemGrant(q *question) *Refusal {
	g := q.node.GetGrantStmt()
	if g.Targtype != pg.GrantTargetType_ACL_TARGET_OBJECT {
		return nil
	}
	for _, n := range g.Objects {
		schema := n.GetRangeVar().GetSchemaname()
		if systemSchemas[n.GetString_().GetSval()] && g.Objtype == pg.ObjectType_OBJECT_SCHEMA ||
			systemSchemas[schema] && schema != "public" {
			return refuse(systemEntity)
		}
	}
	return nil
}

// systemSchema refuses to drop a schema of the system.
func systemSchema(q *question) *Refusal {
	d := q.node.GetDropStmt()
	if d.RemoveType != pg.ObjectType_OBJECT_SCHEMA {
		return nil
	}
	for _, n := range d.Objects {
		if systemSchemas[n.GetString_().GetSval()] {
			return refuse(systemEntity)
		}
	}
	return nil
}

// objects are the kinds of objects that a cluster can create, and hence drop.
var objects = map[pg.ObjectType]bool{
	pg.ObjectType_OBJECT_TABLE: true, pg.ObjectType_OBJECT_INDEX: true, pg.ObjectType_OBJECT_VIEW: true,
	pg.ObjectType_OBJECT_SEQUENCE: true, pg.ObjectType_OBJECT_SCHEMA: true, pg.ObjectType_OBJECT_DOMAIN: true,
	pg.ObjectType_OBJECT_FUNCTION: true, pg.ObjectType_OBJECT_STATISTIC_EXT: true,
}

// parts are further kinds of objects that a cluster can rename.
var parts = map[pg.ObjectType]bool{
	pg.ObjectType_OBJECT_COLUMN: true, pg.ObjectType_OBJECT_TABCONSTRAINT: true,
	pg.ObjectType_OBJECT_DOMCONSTRAINT: true, pg.ObjectType_OBJECT_ROLE: true,
}

func droppable(q *question) *Refusal {
	switch d := q.node.GetDropStmt(); {
	case !objects[d.RemoveType]:
		return refuse("unsupported object in DROP statement")
	case d.Concurrent:
		return refuse("CONCURRENTLY not supported for DROP INDEX")
	}
	return nil
}

func renamable(q *question) *Refusal {
	if r := q.node.GetRenameStmt(); !objects[r.RenameType] && !parts[r.RenameType] {
		return refuse("unsupported object in RENAME statement")
	}
	return nil
}

func ownedType(q *question) *Refusal {
	if q.node.GetAlterOwnerStmt().ObjectType == pg.ObjectType_OBJECT_TYPE {
		return refuse("ALTER TYPE not supported")
	}
	return nil
}

// alterDomain refuses the forms of ALTER DOMAIN that narrow a domain. DROP CONSTRAINT and VALIDATE CONSTRAINT are not
// recorded.
func alterDomain(q *question) *Refusal {
	if q.domainChanges {
		return nil
	}
	switch q.node.GetAlterDomainStmt().Subtype {
	case "C":
		return refuse("unsupported ALTER DOMAIN ADD CONSTRAINT statement")
	case "O":
		return refuse("unsupported ALTER DOMAIN SET NOT NULL statement")
	}
	return nil
}

// domainCascade refuses DROP DOMAIN with CASCADE, which would drop columns of the domain's type.
func domainCascade(q *question) *Refusal {
	if d := q.node.GetDropStmt(); !q.domainChanges && d.RemoveType == pg.ObjectType_OBJECT_DOMAIN && d.Behavior == pg.DropBehavior_DROP_CASCADE {
		return refuse("DROP DOMAIN with CASCADE unsupported")
	}
	return nil
}

// sequenceDefaults refuses nextval in the default of a column, with Options.WithoutSequenceDefaults.
func sequenceDefaults(q *question) *Refusal {
	if !q.withoutDefaults {
		return nil
	}
	refused := refuse("function nextval not supported in a DEFAULT expression")
	draws := func(n *pg.Node) (found bool) {
		Walk(n.ProtoReflect(), func(m any) {
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
