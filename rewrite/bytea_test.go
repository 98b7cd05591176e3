package rewrite

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// TestMappingChangesNothingElse holds that a text over tables without mapped columns is planned
// as if there were no mapping at all.
func TestMappingChangesNothingElse(t *testing.T) {
	t.Parallel()
	p, stock := mappedPlanner(t, nil), goldenPlanner(t)
	names := schema.New([]schema.Relation{
		{Schema: "public", Name: "t", Columns: []schema.Column{{Name: "a"}, {Name: "k"}, {Name: "v"}}},
		{Schema: "public", Name: "elsewhere", Columns: []schema.Column{{Name: "k", Mapped: true}}},
	}).ResolverFor([]string{"public"})
	for _, c := range sqltexts.ReadGolden(t, "testdata/mapped/queries.sql") {
		if got, want := p.PlanWithNames([]byte(c.In), names).Text, stock.Plan([]byte(c.In)).Text; got != want {
			t.Errorf("%s\n became %q, want %q", c.In, got, want)
		}
	}
}

// TestMappedTextIsLeftAlone holds that what goes out means the same when it comes in.
func TestMappedTextIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := mappedPlanner(t, nil)
	for _, c := range sqltexts.ReadGolden(t, "testdata/mapped/queries.sql") {
		if c.Out == "same" || strings.Contains(c.Rules, "bytea_followed") {
			continue
		}
		if again := p.PlanWithNames([]byte(c.Out), mappedNames()); again.Text != "" && !strings.Contains(c.In, "INSERT INTO t ") && !strings.Contains(c.In, "z (x, y)") {
			t.Errorf("%s\n is rewritten again, to %s", c.Out, again.Text)
		}
	}
}

// TestUnknownPathRefuses holds that a name which the search path decides is not guessed.
func TestUnknownPathRefuses(t *testing.T) {
	t.Parallel()
	p := mappedPlanner(t, nil)
	names := mappedNames().Schema().ResolverForUnknownPath()
	if plan := p.PlanWithNames([]byte("SELECT k FROM t"), names); plan.Statements[0].Refusal == nil || plan.Text != "" {
		t.Errorf("got %q, want a refusal", plan.Text)
	}
	if plan := p.PlanWithNames([]byte("SELECT k FROM public.t"), names); !strings.Contains(plan.Text, schema.MappedSuffix) {
		t.Errorf("got %q, want a mapped column", plan.Text)
	}
	if plan := p.PlanWithNames([]byte("WITH t AS (SELECT 1 AS k) SELECT k FROM t"), names); plan.Statements[0].Refusal != nil {
		t.Errorf("refused: %s", plan.Statements[0].Refusal.Detail)
	}
}

// places are statements over a mapped table with expressions and clauses of many kinds.
var places = []string{
	"SELECT xmlelement(name x, k) FROM t",
	"SELECT xmlserialize(CONTENT xmlelement(name x, k) AS text) FROM t",
	"SELECT json_object('a' : k) FROM t",
	"SELECT json_array(k) FROM t",
	"SELECT json_array(SELECT k FROM t)",
	"SELECT json_objectagg(a : k) FROM t",
	"SELECT json_arrayagg(k ORDER BY k) FROM t",
	"SELECT json_scalar(k) FROM t",
	"SELECT json_serialize(v RETURNING bytea) FROM t",
	"SELECT k IS JSON FROM t",
	"SELECT json_value(v, '$.a' PASSING k AS b) FROM t",
	"SELECT 1 FROM t, json_table(t.k, '$' COLUMNS (x text PATH '$'))",
	"SELECT 1 FROM t, xmltable('/a' PASSING t.k COLUMNS x text)",
	"SELECT 1 FROM t TABLESAMPLE system (1) WHERE k = $1",
	"SELECT (ARRAY[k])[1], k COLLATE \"C\", k AT TIME ZONE v, COALESCE(k, v), GREATEST(k, v), NULLIF(k, v) FROM t",
	"SELECT extract(year FROM k), overlay(k PLACING v FROM 1), position(k IN v), trim(k FROM v), substring(k FROM 1 FOR 2) FROM t",
	"SELECT f(VARIADIC k), f(x => k), count(*) FILTER (WHERE k > v), sum(a) OVER w FROM t WINDOW w AS (PARTITION BY k ORDER BY k)",
	"SELECT 1 FROM ROWS FROM (f((SELECT k FROM t)), g()) WITH ORDINALITY",
	"SELECT 1 FROM t, LATERAL (SELECT k) AS x, LATERAL f(t.k) AS y",
	"SELECT k IS TRUE, NOT k, k ISNULL, (k, a) OVERLAPS (k, a), k LIKE v, k SIMILAR TO v FROM t LIMIT (SELECT length(k) FROM t)",
	"WITH RECURSIVE r AS (SELECT k FROM t UNION ALL SELECT t.k FROM t JOIN r ON r.k = t.k) SEARCH DEPTH FIRST BY k SET o SELECT * FROM r",
	"WITH RECURSIVE r AS (SELECT k FROM t UNION ALL SELECT t.k FROM t JOIN r ON r.k = t.k) CYCLE k SET c USING p SELECT k FROM r",
	"SELECT k INTO x FROM t",
	"SELECT 1 FROM (t JOIN u ON t.k = u.\"Id\") AS j WHERE j.k = $1",
	"INSERT INTO t (k[1]) VALUES ($1)",
	"UPDATE t SET k[1] = $1",
	"DELETE FROM t WHERE CURRENT OF c",
	"DELETE FROM t WHERE k = ANY (SELECT k FROM t) RETURNING t.*, ROW(t.*), (t).k",
	"TABLE t", "VALUES ((TABLE t))", "EXPLAIN ANALYZE TABLE t",
	"DECLARE c CURSOR FOR SELECT k FROM t",
	"MERGE INTO u USING t ON true WHEN NOT MATCHED THEN INSERT VALUES (t.k)",
	"CREATE RULE r AS ON INSERT TO plain DO INSTEAD DELETE FROM t WHERE k = NEW.k",
	"CREATE POLICY p ON t USING (k = $1)",
	"CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW WHEN (NEW.k = OLD.k) EXECUTE FUNCTION f()",
	"CREATE FUNCTION f() RETURNS bytea BEGIN ATOMIC SELECT k FROM t; END",
	"CREATE STATISTICS s ON k, a FROM t",
	"LOCK TABLE t",
	"COPY (SELECT k FROM t) TO STDOUT",
	"COPY (DELETE FROM t RETURNING k) TO STDOUT",
	"SELECT (ARRAY[1, 2])[length(k)], (ARRAY[1])[a:octet_length(t.k)] FROM t",
	"SELECT 1 FROM u TABLESAMPLE system ((SELECT length(k) FROM t))",
	"SELECT 1 FROM t, xmltable('/a' PASSING v COLUMNS x text PATH 'b' DEFAULT encode(k, 'hex'))",
	"SELECT 1 FROM t, json_table(v, '$' COLUMNS (x text PATH '$' DEFAULT encode(t.k, 'hex') ON EMPTY))",
	"SELECT json_value(v, '$.a' DEFAULT encode(k, 'hex') ON ERROR) FROM t",
	"INSERT INTO t (k) VALUES ($1) ON CONFLICT ((k || 'x')) DO NOTHING",
	"INSERT INTO t (a) VALUES ($1) ON CONFLICT (a) WHERE k = '' DO NOTHING",
	"ALTER POLICY p ON t USING (k = $1)",
	"CALL f((SELECT k FROM t))",
	"EXECUTE f((SELECT k FROM t))",
	"CREATE PUBLICATION p FOR TABLE t WHERE (k = '')",
	"CREATE PUBLICATION p FOR TABLE t (k)",
	"ALTER PUBLICATION p ADD TABLE t WHERE (k = '')",
	"CREATE STATISTICS s ON (k || k), a FROM t",
	"CREATE TABLE x (k bytea PRIMARY KEY) PARTITION BY RANGE (k)",
	"CREATE TABLE x (k bytea PRIMARY KEY) PARTITION BY LIST ((k || k))",
	"CREATE TABLE x PARTITION OF t FOR VALUES FROM ('a') TO ('b')",
	"CREATE FUNCTION f(x bytea DEFAULT (SELECT k FROM t)) RETURNS int LANGUAGE sql AS 'SELECT 1'",
	"CREATE DOMAIN d AS bytea CHECK (VALUE <> (SELECT k FROM t))",
	"ALTER DOMAIN d SET DEFAULT (SELECT k FROM t)",
	"CREATE FOREIGN TABLE x (n int CHECK (n > (SELECT length(k) FROM t))) SERVER s",
	"CREATE MATERIALIZED VIEW m AS SELECT k FROM t",
	"CREATE TABLE x AS SELECT k FROM t",
	"CREATE TABLE x (LIKE t INCLUDING ALL)",
	"CREATE TABLE x (n int) INHERITS (t)",
	"CREATE SCHEMA s CREATE VIEW v AS SELECT k FROM public.t",
	"ALTER TABLE t ADD CHECK (k <> '')",
	"ANALYZE t (k)", "VACUUM t (k)",
	"GRANT SELECT (k) ON t TO r", "REVOKE UPDATE (k) ON t FROM r",
	"COMMENT ON COLUMN t.k IS 'x'", "SECURITY LABEL ON COLUMN t.k IS 'x'",
	"COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE (k))", "COPY t (k) FROM STDIN", "COPY t FROM STDIN WHERE k = ''",
	"CLUSTER t", "REFRESH MATERIALIZED VIEW m",
	"DO 'SELECT k FROM t'",
}

// columnless are the kinds of nodes below which no column's name stands, although their tables
// have a field for any node: they are made behind the parser, or hold names and constants.
var columnless = strings.Fields(`
	Aggref AlternativeSubPlan ArrayCoerceExpr ArrayExpr CaseTestExpr CoerceToDomain CoerceToDomainValue CoerceViaIO
	CollateExpr ConvertRowtypeExpr CurrentOfExpr DistinctExpr FieldSelect FieldStore FromExpr FuncExpr InferenceElem
	IntList JsonConstructorExpr JsonExpr JsonTablePathScan JsonTableSiblingJoin MergeAction MergeSupportFunc
	NextValueExpr NullIfExpr OidList OnConflictExpr OpExpr PLAssignStmt Param Query RangeTblEntry RangeTblFunction
	RelabelType RowCompareExpr ScalarArrayOpExpr SetOperationStmt SubPlan SubscriptingRef TableFunc TableSampleClause
	TargetEntry Var WindowClause WindowFunc WindowFuncRunCondition WithCheckOption

	AccessPriv Alias AlterCollationStmt AlterDatabaseStmt AlterDefaultPrivilegesStmt AlterEnumStmt AlterExtensionContentsStmt
	AlterExtensionStmt AlterFdwStmt AlterForeignServerStmt AlterFunctionStmt AlterObjectDependsStmt AlterObjectSchemaStmt
	AlterOpFamilyStmt AlterOperatorStmt AlterOwnerStmt AlterRoleStmt AlterSeqStmt AlterStatsStmt AlterSubscriptionStmt
	AlterTSConfigurationStmt AlterTSDictionaryStmt AlterTableMoveAllStmt AlterTableSpaceOptionsStmt AlterTypeStmt
	AlterUserMappingStmt CTECycleClause CTESearchClause ClusterStmt CommentStmt CompositeTypeStmt ConstraintsSetStmt
	CreateAmStmt CreateConversionStmt CreateEnumStmt CreateEventTrigStmt CreateExtensionStmt CreateFdwStmt
	CreateForeignServerStmt CreateOpClassItem CreateOpClassStmt CreateOpFamilyStmt CreatePLangStmt CreateRangeStmt
	CreateRoleStmt CreateSeqStmt CreateSubscriptionStmt CreateTableSpaceStmt CreateUserMappingStmt CreatedbStmt DefElem
	DefineStmt DoStmt DropOwnedStmt DropRoleStmt DropStmt DropdbStmt GrantRoleStmt GrantStmt ImportForeignSchemaStmt
	IntoClause JsonTablePathSpec LockStmt LockingClause ObjectWithArgs PartitionBoundSpec PartitionRangeDatum
	ReassignOwnedStmt ReindexStmt RenameStmt SQLValueFunction SecLabelStmt SetToDefault TransactionStmt TruncateStmt
	TypeName VacuumRelation VacuumStmt VariableSetStmt`)

// TestEveryKindIsTried holds that the places above and the golden texts have a column's name
// below each kind of node of the grammar under which one can stand.
func TestEveryKindIsTried(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{}
	var walk func(m parse.TreeNode) bool
	walk = func(m parse.TreeNode) bool {
		found := m.Is("ColumnRef")
		for child := range m.Children() {
			found = child.Shape != nil && walk(child) || found
		}
		tried[m.TypeName()] = tried[m.TypeName()] || found
		return found
	}
	all := slices.Clone(places)
	for _, file := range []string{"queries", "ddl"} {
		for _, c := range sqltexts.ReadGolden(t, "testdata/mapped/"+file+".sql") {
			all = append(all, c.In)
		}
	}
	for _, sql := range all {
		if tree, err := parseDialect(sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		} else {
			walk(tree)
		}
	}
	for name, s := range parse.NodeTypes() {
		holds := slices.ContainsFunc(s.Fields, func(f parse.Field) bool { return f.Shape != nil && f.Shape.Name == "Node" })
		if holds && !tried[name] && !slices.Contains(columnless, name) {
			t.Errorf("no statement has a column's name below a node of the kind %s", name)
		}
	}
	for _, name := range columnless {
		if tried[name] {
			t.Errorf("a column's name stands below a node of the kind %s", name)
		}
	}
}

// mayPass are those of the places that may pass as they are: they name rows by no column, or
// DSQL refuses them whatever they say.
var mayPass = regexp.MustCompile(`^(LOCK|CLUSTER|REFRESH|DO|SECURITY LABEL|DELETE .* CURRENT OF|CREATE TABLE x .*(PARTITION|INHERITS)) `)

// TestNoColumnIsMissed holds that in whatever place of the grammar a mapped column stands, it
// is rewritten or the statement refused: none goes out under the name that clients know.
func TestNoColumnIsMissed(t *testing.T) {
	t.Parallel()
	p := mappedPlanner(t, nil)
	for _, sql := range places {
		plan := p.PlanWithNames([]byte(sql), mappedNames())
		if c := plan.Statements[0].Cursor; c != nil { // its query is planned by itself
			plan = p.PlanWithNames([]byte(c.Query), mappedNames())
		}
		for _, st := range plan.Statements {
			if plan.Text == "" && st.Refusal == nil && !mayPass.MatchString(sql+" ") {
				t.Errorf("%s\n passes as it is", sql)
			}
		}
		for _, f := range plan.Findings {
			if f.Outcome == finding.Unverified {
				t.Errorf("%s\n made a text that does not mean what was intended", sql)
			}
		}
	}
}

// FuzzPlanIn plans texts over schemas that a list of bytes makes: a planner never panics, the
// text that goes out is one and says what was meant, and where nothing is mapped, or nothing
// that is mapped is in the search path, it is the text that goes out without a mapping.
func FuzzPlanIn(f *testing.F) {
	for i, c := range sqltexts.ReadGolden(&testing.T{}, "testdata/mapped/queries.sql") {
		f.Add(c.In, []byte{byte(i), byte(i * 7), 0xff})
	}
	for i, sql := range places {
		f.Add(sql, []byte{0xff, byte(i), byte(i * 5)})
	}
	f.Fuzz(func(t *testing.T, sql string, mapped []byte) {
		p, stock := mappedPlanner(t, nil), goldenPlanner(t)
		relations := drawnRelations(mapped)
		names := schema.New(relations).ResolverFor([]string{"public"})
		plan := p.PlanWithNames([]byte(sql), names)
		for _, found := range plan.Findings {
			if found.Outcome == finding.Unverified && strings.HasPrefix(string(found.Feature), "bytea") && !refusedAny(plan) {
				t.Errorf("%q goes out unverified", sql)
			}
		}
		if plan.Text != "" {
			if _, err := parseDialect(plan.Text); err != nil {
				t.Errorf("%q became %q, which is none: %v", sql, plan.Text, err)
			}
		}
		for i := range relations {
			for j := range relations[i].Columns {
				relations[i].Columns[j].Mapped = false
			}
		}
		unmapped := schema.New(relations).ResolverFor([]string{"public"})
		if asDDL.MatchString(sql) {
			return // what makes a table maps its own columns
		}
		if got, want := p.PlanWithNames([]byte(sql), unmapped).Text, stock.Plan([]byte(sql)).Text; got != want {
			t.Errorf("%q over unmapped tables became %q, want %q", sql, got, want)
		}
	})
}

// asDDL finds texts that may make or change a table.
var asDDL = regexp.MustCompile(`(?i)create|alter`)

func refusedAny(plan *Plan) bool {
	return slices.ContainsFunc(plan.Statements, func(st Statement) bool { return st.Refusal != nil })
}

// drawnRelations are tables whose columns are mapped where a bit is set, in an order that the
// bytes choose.
func drawnRelations(bits []byte) []schema.Relation {
	next := 0
	bit := func() bool {
		at := next / 8
		next++
		return at < len(bits) && bits[at]>>(next%8)&1 != 0
	}
	var all []schema.Relation
	for _, name := range []string{"t", "u", "plain", "Odd \"name\"", "select"} {
		r := schema.Relation{Schema: "public", Name: name}
		if first := bit(); first && bit() {
			r.Schema = "other"
		}
		for _, column := range []string{"a", "k", "v", "Id", "n", "order"} {
			if bit() || len(r.Columns) < 2 {
				r.Columns = append(r.Columns, schema.Column{Name: column, Mapped: bit()})
			}
		}
		if bit() {
			slices.Reverse(r.Columns)
		}
		all = append(all, r)
	}
	return all
}
