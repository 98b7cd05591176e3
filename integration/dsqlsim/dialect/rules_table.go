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
	if refused := columnType(c); refused != nil {
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
		if !cached(con.Options) {
			return refuse("identity column is not supported without an explicit cache size. " + defineCache)
		}
	}
	return nil
}

// keyTypes refuses a key over a column whose type cannot be in one. It sees the
// columns of the statement itself only.
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
		if keyless[types[k]] {
			return refuse("datatype " + types[k] + " is not supported in a key")
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

// alteration judges one sub-command of ALTER TABLE.
func alteration(c *pg.AlterTableCmd, async bool) *Refusal {
	switch c.Subtype {
	case pg.AlterTableType_AT_DropColumn, pg.AlterTableType_AT_ColumnDefault, pg.AlterTableType_AT_DropNotNull,
		pg.AlterTableType_AT_SetStorage, pg.AlterTableType_AT_ChangeOwner, pg.AlterTableType_AT_DropConstraint:
		return nil
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

// alterations are the words of refused sub-commands. SET DATA TYPE and ENABLE ROW
// SECURITY are recorded; the others follow their pattern.
var alterations = map[pg.AlterTableType]string{
	pg.AlterTableType_AT_AlterColumnType:   "ALTER COLUMN ... SET DATA TYPE",
	pg.AlterTableType_AT_SetNotNull:        "ALTER COLUMN ... SET NOT NULL",
	pg.AlterTableType_AT_AddIdentity:       "ALTER COLUMN ... ADD IDENTITY",
	pg.AlterTableType_AT_DropIdentity:      "ALTER COLUMN ... DROP IDENTITY",
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
	if refused := columnType(c); refused != nil {
		return refused
	}
	if len(c.Constraints) > 0 || c.CollClause != nil {
		return refuse("ALTER TABLE ADD COLUMN with constraint not supported")
	}
	return nil
}

// addConstraint lets through what needs no scan of the table: NOT VALID, and
// UNIQUE over an index that exists.
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

// dropType: types cannot be made, hence not dropped.
func dropType(q *question) *Refusal {
	switch q.node.GetDropStmt().RemoveType {
	case pg.ObjectType_OBJECT_TYPE, pg.ObjectType_OBJECT_TRIGGER, pg.ObjectType_OBJECT_EXTENSION:
		return refuse("unsupported object in DROP statement")
	}
	return nil
}

func renameType(q *question) *Refusal {
	if q.node.GetRenameStmt().RenameType == pg.ObjectType_OBJECT_TYPE {
		return refuse("unsupported object in RENAME statement")
	}
	return nil
}
