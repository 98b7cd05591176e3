package dialect

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

func tableKind(q *question) *Refusal {
	t := q.node.GetCreateStmt()
	switch {
	case t.Relation.Relpersistence == "t":
		return refuse("TEMPORARY or TEMP table not supported for CREATE TABLE")
	case t.Relation.Relpersistence == "u":
		return refuse("UNLOGGED table not supported for CREATE TABLE")
	case t.Partspec != nil:
		return refuse("PARTITION BY clause not supported for CREATE TABLE")
	case len(t.InhRelations) > 0:
		return refuse("INHERITS clause not supported for CREATE TABLE")
	case t.OfTypename != nil:
		return refuse("OF clause not supported for CREATE TABLE")
	case t.AccessMethod != "":
		return refuse("USING clause not supported for CREATE TABLE")
	case len(t.Options) > 0:
		return refuse("WITH clause not supported for CREATE TABLE")
	case t.Tablespacename != "":
		return refuse("TABLESPACE clause not supported for CREATE TABLE")
	}
	return nil
}

func tableColumns(q *question) *Refusal {
	for _, element := range q.node.GetCreateStmt().TableElts {
		if c := element.GetColumnDef(); c != nil {
			if refused := column(c); refused != nil {
				return refused
			}
		}
		if element.GetConstraint().GetContype() == pg.ConstrType_CONSTR_EXCLUSION {
			return refuse("EXCLUDE constraint not supported for CREATE TABLE")
		}
	}
	return nil
}

func column(c *pg.ColumnDef) *Refusal {
	if refused := columnType(c.TypeName); refused != nil {
		return refused
	}
	if c.CollClause != nil {
		return refuse("COLLATE clause not supported")
	}
	for _, n := range c.Constraints {
		con := n.GetConstraint()
		if con.GetContype() != pg.ConstrType_CONSTR_IDENTITY {
			continue
		}
		if typeName(c.TypeName) != "int8" {
			return refuse("datatype " + display(c.TypeName) + " not supported, identity column type must be bigint")
		}
		if refused := identityCache(con); refused != nil {
			return refused
		}
	}
	return nil
}

func identityCache(c *pg.Constraint) *Refusal {
	if cached(c.Options) {
		return nil
	}
	return refuse("identity column is not supported without an explicit cache size. " + defineCache)
}

// keyTypes refuses a key over a column whose type cannot be in a key. It checks the columns that the statement defines;
// the catalog checks existing columns.
func keyTypes(q *question) *Refusal {
	types := make(map[string]string)
	var keys []string
	for _, element := range q.node.GetCreateStmt().TableElts {
		if c := element.GetColumnDef(); c != nil {
			types[c.Colname] = typeName(c.TypeName)
			for _, n := range c.Constraints {
				if isKey(n.GetConstraint()) {
					keys = append(keys, c.Colname)
				}
			}
		}
		if con := element.GetConstraint(); isKey(con) {
			for _, k := range con.Keys {
				keys = append(keys, k.GetString_().GetSval())
			}
		}
	}
	for _, k := range keys {
		if t := types[k]; t == "jsonb" || t == "bytea" && !q.byteaKeys {
			return refuse("datatype " + t + " is not supported in a key")
		}
	}
	return nil
}

func isKey(c *pg.Constraint) bool {
	t := c.GetContype()
	return t == pg.ConstrType_CONSTR_PRIMARY || t == pg.ConstrType_CONSTR_UNIQUE
}

func alterTable(q *question) *Refusal {
	t := q.node.GetAlterTableStmt()
	switch t.Objtype {
	case pg.ObjectType_OBJECT_TABLE:
	case pg.ObjectType_OBJECT_TYPE:
		return refuse("ALTER TYPE not supported")
	default:
		return nil
	}
	for _, n := range t.Cmds {
		if refused := alteration(n.GetAlterTableCmd(), q.async); refused != nil {
			return refused
		}
	}
	return nil
}

// alteration returns the refusal of one sub-command of ALTER TABLE, or nil.
func alteration(c *pg.AlterTableCmd, async bool) *Refusal {
	switch c.Subtype {
	case pg.AlterTableType_AT_DropColumn, pg.AlterTableType_AT_ColumnDefault, pg.AlterTableType_AT_DropNotNull,
		pg.AlterTableType_AT_SetStorage, pg.AlterTableType_AT_ChangeOwner, pg.AlterTableType_AT_DropConstraint,
		pg.AlterTableType_AT_DropExpression, pg.AlterTableType_AT_AlterConstraint,
		pg.AlterTableType_AT_SetIdentity, pg.AlterTableType_AT_DropIdentity:
		return nil
	case pg.AlterTableType_AT_AddIdentity:
		return identityCache(c.Def.GetConstraint())
	case pg.AlterTableType_AT_AddColumn:
		return addColumn(c.Def.GetColumnDef())
	case pg.AlterTableType_AT_AddConstraint:
		return addConstraint(c.Def.GetConstraint())
	case pg.AlterTableType_AT_ValidateConstraint:
		if async {
			return nil
		}
		return unsupportedAlter("VALIDATE CONSTRAINT")
	}
	if name, ok := alterations[c.Subtype]; ok {
		return unsupportedAlter(name)
	}
	return unsupportedAlter(c.Subtype.String()[len("AT_"):])
}

// alterations maps refused sub-commands of ALTER TABLE to their names in the refusal. SET DATA TYPE and ENABLE ROW
// SECURITY are recorded; the others follow their pattern.
var alterations = map[pg.AlterTableType]string{
	pg.AlterTableType_AT_AlterColumnType:   "ALTER COLUMN ... SET DATA TYPE",
	pg.AlterTableType_AT_SetNotNull:        "ALTER COLUMN ... SET NOT NULL",
	pg.AlterTableType_AT_SetStatistics:     "ALTER COLUMN ... SET STATISTICS",
	pg.AlterTableType_AT_EnableRowSecurity: "ENABLE ROW SECURITY",
	pg.AlterTableType_AT_ClusterOn:         "CLUSTER ON",
	pg.AlterTableType_AT_SetRelOptions:     "SET RELOPTIONS",
	pg.AlterTableType_AT_AddInherit:        "INHERIT",
	pg.AlterTableType_AT_AttachPartition:   "ATTACH PARTITION",
}

func unsupportedAlter(name string) *Refusal {
	return refuse("unsupported ALTER TABLE " + name + " statement")
}

func addColumn(c *pg.ColumnDef) *Refusal {
	if refused := columnType(c.TypeName); refused != nil {
		return refused
	}
	if c.CollClause != nil {
		return refuse("COLLATE clause not supported")
	}
	if len(c.Constraints) > 0 {
		return refuse("ALTER TABLE ADD COLUMN with constraint not supported")
	}
	return nil
}

// addConstraint allows constraints that need no scan of the table: NOT VALID, and UNIQUE over an index that exists.
func addConstraint(c *pg.Constraint) *Refusal {
	switch c.Contype {
	case pg.ConstrType_CONSTR_CHECK, pg.ConstrType_CONSTR_FOREIGN:
		if c.SkipValidation {
			return nil
		}
	case pg.ConstrType_CONSTR_UNIQUE:
		if c.Indexname != "" {
			return nil
		}
	}
	return unsupportedAlter("ADD CONSTRAINT")
}
