package parse

import pg_query "github.com/pganalyze/pg_query_go/v6"

// These types are enumerations of PostgreSQL's parse trees, with PostgreSQL's names. A TreeNode stores their values as
// integers.
type (
	A_Expr_Kind         = pg_query.A_Expr_Kind
	AlterTableType      = pg_query.AlterTableType
	BoolExprType        = pg_query.BoolExprType
	ConstrType          = pg_query.ConstrType
	DiscardMode         = pg_query.DiscardMode
	DropBehavior        = pg_query.DropBehavior
	FetchDirection      = pg_query.FetchDirection
	JoinType            = pg_query.JoinType
	LockClauseStrength  = pg_query.LockClauseStrength
	MinMaxOp            = pg_query.MinMaxOp
	NullTestType        = pg_query.NullTestType
	ObjectType          = pg_query.ObjectType
	OnConflictAction    = pg_query.OnConflictAction
	OverridingKind      = pg_query.OverridingKind
	SQLValueFunctionOp  = pg_query.SQLValueFunctionOp
	SetOperation        = pg_query.SetOperation
	SortByDir           = pg_query.SortByDir
	SubLinkType         = pg_query.SubLinkType
	TransactionStmtKind = pg_query.TransactionStmtKind
	VariableSetKind     = pg_query.VariableSetKind
)

// These are the values of PostgreSQL's enumerations in parse trees that rules use, with PostgreSQL's names.
const (
	AEXPR_BETWEEN         = pg_query.A_Expr_Kind_AEXPR_BETWEEN
	AEXPR_BETWEEN_SYM     = pg_query.A_Expr_Kind_AEXPR_BETWEEN_SYM
	AEXPR_DISTINCT        = pg_query.A_Expr_Kind_AEXPR_DISTINCT
	AEXPR_IN              = pg_query.A_Expr_Kind_AEXPR_IN
	AEXPR_NOT_BETWEEN     = pg_query.A_Expr_Kind_AEXPR_NOT_BETWEEN
	AEXPR_NOT_BETWEEN_SYM = pg_query.A_Expr_Kind_AEXPR_NOT_BETWEEN_SYM
	AEXPR_NOT_DISTINCT    = pg_query.A_Expr_Kind_AEXPR_NOT_DISTINCT
	AEXPR_NULLIF          = pg_query.A_Expr_Kind_AEXPR_NULLIF
	AEXPR_OP              = pg_query.A_Expr_Kind_AEXPR_OP
	AEXPR_OP_ALL          = pg_query.A_Expr_Kind_AEXPR_OP_ALL
	AEXPR_OP_ANY          = pg_query.A_Expr_Kind_AEXPR_OP_ANY

	AT_AddColumn          = pg_query.AlterTableType_AT_AddColumn
	AT_AddConstraint      = pg_query.AlterTableType_AT_AddConstraint
	AT_AddIdentity        = pg_query.AlterTableType_AT_AddIdentity
	AT_AddInherit         = pg_query.AlterTableType_AT_AddInherit
	AT_AlterColumnType    = pg_query.AlterTableType_AT_AlterColumnType
	AT_AttachPartition    = pg_query.AlterTableType_AT_AttachPartition
	AT_ColumnDefault      = pg_query.AlterTableType_AT_ColumnDefault
	AT_DetachPartition    = pg_query.AlterTableType_AT_DetachPartition
	AT_DropColumn         = pg_query.AlterTableType_AT_DropColumn
	AT_DropConstraint     = pg_query.AlterTableType_AT_DropConstraint
	AT_DropExpression     = pg_query.AlterTableType_AT_DropExpression
	AT_DropIdentity       = pg_query.AlterTableType_AT_DropIdentity
	AT_DropNotNull        = pg_query.AlterTableType_AT_DropNotNull
	AT_EnableRowSecurity  = pg_query.AlterTableType_AT_EnableRowSecurity
	AT_ForceRowSecurity   = pg_query.AlterTableType_AT_ForceRowSecurity
	AT_ResetOptions       = pg_query.AlterTableType_AT_ResetOptions
	AT_SetCompression     = pg_query.AlterTableType_AT_SetCompression
	AT_SetExpression      = pg_query.AlterTableType_AT_SetExpression
	AT_SetIdentity        = pg_query.AlterTableType_AT_SetIdentity
	AT_SetNotNull         = pg_query.AlterTableType_AT_SetNotNull
	AT_SetOptions         = pg_query.AlterTableType_AT_SetOptions
	AT_SetStatistics      = pg_query.AlterTableType_AT_SetStatistics
	AT_SetStorage         = pg_query.AlterTableType_AT_SetStorage
	AT_SetTableSpace      = pg_query.AlterTableType_AT_SetTableSpace
	AT_SetUnLogged        = pg_query.AlterTableType_AT_SetUnLogged
	AT_ValidateConstraint = pg_query.AlterTableType_AT_ValidateConstraint

	AND_EXPR = pg_query.BoolExprType_AND_EXPR
	OR_EXPR  = pg_query.BoolExprType_OR_EXPR

	CONSTR_ATTR_DEFERRABLE     = pg_query.ConstrType_CONSTR_ATTR_DEFERRABLE
	CONSTR_ATTR_DEFERRED       = pg_query.ConstrType_CONSTR_ATTR_DEFERRED
	CONSTR_ATTR_IMMEDIATE      = pg_query.ConstrType_CONSTR_ATTR_IMMEDIATE
	CONSTR_ATTR_NOT_DEFERRABLE = pg_query.ConstrType_CONSTR_ATTR_NOT_DEFERRABLE
	CONSTR_CHECK               = pg_query.ConstrType_CONSTR_CHECK
	CONSTR_DEFAULT             = pg_query.ConstrType_CONSTR_DEFAULT
	CONSTR_EXCLUSION           = pg_query.ConstrType_CONSTR_EXCLUSION
	CONSTR_FOREIGN             = pg_query.ConstrType_CONSTR_FOREIGN
	CONSTR_GENERATED           = pg_query.ConstrType_CONSTR_GENERATED
	CONSTR_IDENTITY            = pg_query.ConstrType_CONSTR_IDENTITY
	CONSTR_NOTNULL             = pg_query.ConstrType_CONSTR_NOTNULL
	CONSTR_NULL                = pg_query.ConstrType_CONSTR_NULL
	CONSTR_PRIMARY             = pg_query.ConstrType_CONSTR_PRIMARY
	CONSTR_UNIQUE              = pg_query.ConstrType_CONSTR_UNIQUE

	DISCARD_ALL       = pg_query.DiscardMode_DISCARD_ALL
	DISCARD_PLANS     = pg_query.DiscardMode_DISCARD_PLANS
	DISCARD_SEQUENCES = pg_query.DiscardMode_DISCARD_SEQUENCES
	DISCARD_TEMP      = pg_query.DiscardMode_DISCARD_TEMP

	DROP_CASCADE = pg_query.DropBehavior_DROP_CASCADE

	FETCH_BACKWARD = pg_query.FetchDirection_FETCH_BACKWARD
	FETCH_FORWARD  = pg_query.FetchDirection_FETCH_FORWARD
	FETCH_RELATIVE = pg_query.FetchDirection_FETCH_RELATIVE

	JOIN_INNER = pg_query.JoinType_JOIN_INNER
	JOIN_LEFT  = pg_query.JoinType_JOIN_LEFT

	LCS_FORKEYSHARE    = pg_query.LockClauseStrength_LCS_FORKEYSHARE
	LCS_FORNOKEYUPDATE = pg_query.LockClauseStrength_LCS_FORNOKEYUPDATE
	LCS_FORSHARE       = pg_query.LockClauseStrength_LCS_FORSHARE
	LCS_FORUPDATE      = pg_query.LockClauseStrength_LCS_FORUPDATE

	LockWaitBlock = pg_query.LockWaitPolicy_LockWaitBlock
	LockWaitError = pg_query.LockWaitPolicy_LockWaitError
	LockWaitSkip  = pg_query.LockWaitPolicy_LockWaitSkip

	IS_LEAST = pg_query.MinMaxOp_IS_LEAST

	IS_NOT_NULL = pg_query.NullTestType_IS_NOT_NULL

	OBJECT_AGGREGATE       = pg_query.ObjectType_OBJECT_AGGREGATE
	OBJECT_ATTRIBUTE       = pg_query.ObjectType_OBJECT_ATTRIBUTE
	OBJECT_COLUMN          = pg_query.ObjectType_OBJECT_COLUMN
	OBJECT_DOMAIN          = pg_query.ObjectType_OBJECT_DOMAIN
	OBJECT_DOMCONSTRAINT   = pg_query.ObjectType_OBJECT_DOMCONSTRAINT
	OBJECT_EXTENSION       = pg_query.ObjectType_OBJECT_EXTENSION
	OBJECT_FDW             = pg_query.ObjectType_OBJECT_FDW
	OBJECT_FOREIGN_SERVER  = pg_query.ObjectType_OBJECT_FOREIGN_SERVER
	OBJECT_FOREIGN_TABLE   = pg_query.ObjectType_OBJECT_FOREIGN_TABLE
	OBJECT_FUNCTION        = pg_query.ObjectType_OBJECT_FUNCTION
	OBJECT_INDEX           = pg_query.ObjectType_OBJECT_INDEX
	OBJECT_LARGEOBJECT     = pg_query.ObjectType_OBJECT_LARGEOBJECT
	OBJECT_MATVIEW         = pg_query.ObjectType_OBJECT_MATVIEW
	OBJECT_OPCLASS         = pg_query.ObjectType_OBJECT_OPCLASS
	OBJECT_OPFAMILY        = pg_query.ObjectType_OBJECT_OPFAMILY
	OBJECT_PROCEDURE       = pg_query.ObjectType_OBJECT_PROCEDURE
	OBJECT_ROUTINE         = pg_query.ObjectType_OBJECT_ROUTINE
	OBJECT_SCHEMA          = pg_query.ObjectType_OBJECT_SCHEMA
	OBJECT_SEQUENCE        = pg_query.ObjectType_OBJECT_SEQUENCE
	OBJECT_TABCONSTRAINT   = pg_query.ObjectType_OBJECT_TABCONSTRAINT
	OBJECT_TABLE           = pg_query.ObjectType_OBJECT_TABLE
	OBJECT_TSCONFIGURATION = pg_query.ObjectType_OBJECT_TSCONFIGURATION
	OBJECT_TSDICTIONARY    = pg_query.ObjectType_OBJECT_TSDICTIONARY
	OBJECT_TSPARSER        = pg_query.ObjectType_OBJECT_TSPARSER
	OBJECT_TSTEMPLATE      = pg_query.ObjectType_OBJECT_TSTEMPLATE
	OBJECT_TYPE            = pg_query.ObjectType_OBJECT_TYPE
	OBJECT_VIEW            = pg_query.ObjectType_OBJECT_VIEW

	ONCONFLICT_NOTHING = pg_query.OnConflictAction_ONCONFLICT_NOTHING
	ONCONFLICT_UPDATE  = pg_query.OnConflictAction_ONCONFLICT_UPDATE

	OVERRIDING_NOT_SET      = pg_query.OverridingKind_OVERRIDING_NOT_SET
	OVERRIDING_SYSTEM_VALUE = pg_query.OverridingKind_OVERRIDING_SYSTEM_VALUE
	OVERRIDING_USER_VALUE   = pg_query.OverridingKind_OVERRIDING_USER_VALUE

	SVFOP_CURRENT_TIMESTAMP = pg_query.SQLValueFunctionOp_SVFOP_CURRENT_TIMESTAMP
	SVFOP_LOCALTIMESTAMP_N  = pg_query.SQLValueFunctionOp_SVFOP_LOCALTIMESTAMP_N

	SETOP_NONE = pg_query.SetOperation_SETOP_NONE

	SORTBY_ASC     = pg_query.SortByDir_SORTBY_ASC
	SORTBY_DEFAULT = pg_query.SortByDir_SORTBY_DEFAULT
	SORTBY_DESC    = pg_query.SortByDir_SORTBY_DESC

	SORTBY_NULLS_DEFAULT = pg_query.SortByNulls_SORTBY_NULLS_DEFAULT
	SORTBY_NULLS_FIRST   = pg_query.SortByNulls_SORTBY_NULLS_FIRST
	SORTBY_NULLS_LAST    = pg_query.SortByNulls_SORTBY_NULLS_LAST

	ARRAY_SUBLINK  = pg_query.SubLinkType_ARRAY_SUBLINK
	EXISTS_SUBLINK = pg_query.SubLinkType_EXISTS_SUBLINK
	EXPR_SUBLINK   = pg_query.SubLinkType_EXPR_SUBLINK

	TRANS_STMT_BEGIN             = pg_query.TransactionStmtKind_TRANS_STMT_BEGIN
	TRANS_STMT_COMMIT            = pg_query.TransactionStmtKind_TRANS_STMT_COMMIT
	TRANS_STMT_COMMIT_PREPARED   = pg_query.TransactionStmtKind_TRANS_STMT_COMMIT_PREPARED
	TRANS_STMT_PREPARE           = pg_query.TransactionStmtKind_TRANS_STMT_PREPARE
	TRANS_STMT_RELEASE           = pg_query.TransactionStmtKind_TRANS_STMT_RELEASE
	TRANS_STMT_ROLLBACK          = pg_query.TransactionStmtKind_TRANS_STMT_ROLLBACK
	TRANS_STMT_ROLLBACK_PREPARED = pg_query.TransactionStmtKind_TRANS_STMT_ROLLBACK_PREPARED
	TRANS_STMT_ROLLBACK_TO       = pg_query.TransactionStmtKind_TRANS_STMT_ROLLBACK_TO
	TRANS_STMT_SAVEPOINT         = pg_query.TransactionStmtKind_TRANS_STMT_SAVEPOINT
	TRANS_STMT_START             = pg_query.TransactionStmtKind_TRANS_STMT_START

	VAR_RESET       = pg_query.VariableSetKind_VAR_RESET
	VAR_RESET_ALL   = pg_query.VariableSetKind_VAR_RESET_ALL
	VAR_SET_DEFAULT = pg_query.VariableSetKind_VAR_SET_DEFAULT
	VAR_SET_MULTI   = pg_query.VariableSetKind_VAR_SET_MULTI
	VAR_SET_VALUE   = pg_query.VariableSetKind_VAR_SET_VALUE
)
