package dialect

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

func checkTableKind(q *checkedStatement) *Refusal {
	t := q.node.GetCreateStmt()
	switch {
	case t.Relation.Relpersistence == "t":
		return notSupportedRefusal("TEMPORARY or TEMP table not supported for CREATE TABLE")
	case t.Relation.Relpersistence == "u":
		return notSupportedRefusal("UNLOGGED table not supported for CREATE TABLE")
	case t.Partspec != nil:
		return notSupportedRefusal("PARTITION BY clause not supported for CREATE TABLE")
	case len(t.InhRelations) > 0:
		return notSupportedRefusal("INHERITS clause not supported for CREATE TABLE")
	case t.OfTypename != nil:
		return notSupportedRefusal("OF clause not supported for CREATE TABLE")
	case t.AccessMethod != "":
		return notSupportedRefusal("USING clause not supported for CREATE TABLE")
	case len(t.Options) > 0:
		return notSupportedRefusal("WITH clause not supported for CREATE TABLE")
	case t.Tablespacename != "":
		return notSupportedRefusal("TABLESPACE clause not supported for CREATE TABLE")
	}
	return nil
}

func checkTableColumns(q *checkedStatement) *Refusal {
	for _, element := range q.node.GetCreateStmt().TableElts {
		if c := element.GetColumnDef(); c != nil {
			if refused := checkColumn(c); refused != nil {
				return refused
			}
		}
		if element.GetConstraint().GetContype() == pg.ConstrType_CONSTR_EXCLUSION {
			return notSupportedRefusal("EXCLUDE constraint not supported for CREATE TABLE")
		}
	}
	return nil
}

func checkColumn(c *pg.ColumnDef) *Refusal {
	if refused := checkColumnType(c.TypeName); refused != nil {
		return refused
	}
	if c.CollClause != nil {
		return notSupportedRefusal("COLLATE clause not supported")
	}
	for _, n := range c.Constraints {
		con := n.GetConstraint()
		if con.GetContype() != pg.ConstrType_CONSTR_IDENTITY {
			continue
		}
		if typeName(c.TypeName) != "int8" {
			return notSupportedRefusal("datatype " + displayName(c.TypeName) + " not supported, identity column type must be bigint")
		}
		if refused := checkIdentityCache(con); refused != nil {
			return refused
		}
	}
	return nil
}

func checkIdentityCache(c *pg.Constraint) *Refusal {
	if hasValidCache(c.Options) {
		return nil
	}
	return notSupportedRefusal("identity column is not supported without an explicit cache size. " + defineCache)
}

// checkKeyTypes refuses a key over a column whose type cannot be in a key. It checks the columns that the statement
// defines; the catalog checks existing columns.
func checkKeyTypes(q *checkedStatement) *Refusal {
	types := make(map[string]string)
	var keys []string
	for _, element := range q.node.GetCreateStmt().TableElts {
		if c := element.GetColumnDef(); c != nil {
			types[c.Colname] = typeName(c.TypeName)
			for _, n := range c.Constraints {
				if isKeyConstraint(n.GetConstraint()) {
					keys = append(keys, c.Colname)
				}
			}
		}
		if con := element.GetConstraint(); isKeyConstraint(con) {
			for _, k := range con.Keys {
				keys = append(keys, k.GetString_().GetSval())
			}
		}
	}
	for _, k := range keys {
		if t := types[k]; t == "jsonb" || t == "bytea" && !q.byteaKeys {
			return notSupportedRefusal("datatype " + t + " is not supported in a key")
		}
	}
	return nil
}

func isKeyConstraint(c *pg.Constraint) bool {
	t := c.GetContype()
	return t == pg.ConstrType_CONSTR_PRIMARY || t == pg.ConstrType_CONSTR_UNIQUE
}

func checkAlterTable(q *checkedStatement) *Refusal {
	t := q.node.GetAlterTableStmt()
	switch t.Objtype {
	case pg.ObjectType_OBJECT_TABLE:
	case pg.ObjectType_OBJECT_TYPE:
		return notSupportedRefusal("ALTER TYPE not supported")
	default:
		return nil
	}
	for _, n := range t.Cmds {
		if refused := checkAlteration(n.GetAlterTableCmd(), q.async); refused != nil {
			return refused
		}
	}
	return nil
}

// checkAlteration returns the refusal of one sub-command of ALTER TABLE, or nil.
func checkAlteration(c *pg.AlterTableCmd, async bool) *Refusal {
	switch c.Subtype {
	case pg.AlterTableType_AT_DropColumn, pg.AlterTableType_AT_ColumnDefault, pg.AlterTableType_AT_DropNotNull,
		pg.AlterTableType_AT_SetStorage, pg.AlterTableType_AT_ChangeOwner, pg.AlterTableType_AT_DropConstraint,
		pg.AlterTableType_AT_DropExpression, pg.AlterTableType_AT_AlterConstraint,
		pg.AlterTableType_AT_SetIdentity, pg.AlterTableType_AT_DropIdentity:
		return nil
	case pg.AlterTableType_AT_AddIdentity:
		return checkIdentityCache(c.Def.GetConstraint())
	case pg.AlterTableType_AT_AddColumn:
		return checkAddColumn(c.Def.GetColumnDef())
	case pg.AlterTableType_AT_AddConstraint:
		return checkAddConstraint(c.Def.GetConstraint())
	case pg.AlterTableType_AT_ValidateConstraint:
		if async {
			return nil
		}
		return alterRefusal("VALIDATE CONSTRAINT")
	}
	if name, ok := refusedAlterations[c.Subtype]; ok {
		return alterRefusal(name)
	}
	return alterRefusal(c.Subtype.String()[len("AT_"):])
}

// refusedAlterations maps refused sub-commands of ALTER TABLE to their names in the refusal. SET DATA TYPE and ENABLE
// ROW SECURITY are recorded; the others follow their pattern.
var refusedAlterations = map[pg.AlterTableType]string{
	pg.AlterTableType_AT_AlterColumnType:   "ALTER COLUMN ... SET DATA TYPE",
	pg.AlterTableType_AT_SetNotNull:        "ALTER COLUMN ... SET NOT NULL",
	pg.AlterTableType_AT_SetStatistics:     "ALTER COLUMN ... SET STATISTICS",
	pg.AlterTableType_AT_EnableRowSecurity: "ENABLE ROW SECURITY",
	pg.AlterTableType_AT_ClusterOn:         "CLUSTER ON",
	pg.AlterTableType_AT_SetRelOptions:     "SET RELOPTIONS",
	pg.AlterTableType_AT_AddInherit:        "INHERIT",
	pg.AlterTableType_AT_AttachPartition:   "ATTACH PARTITION",
}

func alterRefusal(name string) *Refusal {
	return notSupportedRefusal("unsupported ALTER TABLE " + name + " statement")
}

func checkAddColumn(c *pg.ColumnDef) *Refusal {
	if refused := checkColumnType(c.TypeName); refused != nil {
		return refused
	}
	if c.CollClause != nil {
		return notSupportedRefusal("COLLATE clause not supported")
	}
	if len(c.Constraints) > 0 {
		return notSupportedRefusal("ALTER TABLE ADD COLUMN with constraint not supported")
	}
	return nil
}

// checkAddConstraint returns nil for constraints that need no scan of the table: NOT VALID, and UNIQUE over an index
// that exists. For all others it returns the refusal.
func checkAddConstraint(c *pg.Constraint) *Refusal {
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
	return alterRefusal("ADD CONSTRAINT")
}
