package rewrite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/bytea"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// LockClausePolicy says what Sluice does with a FOR SHARE or FOR NO KEY UPDATE clause.
type LockClausePolicy string

const (
	// Update rewrites a locking clause to FOR UPDATE. Only FOR UPDATE guarantees that a row that was read does not
	// change until COMMIT. Readers then conflict with each other.
	Update LockClausePolicy = "update"
	// KeyShare rewrites a locking clause to FOR KEY SHARE, which protects only against DELETE and changes of the key.
	KeyShare LockClausePolicy = "key-share"
	// Strip removes a locking clause. The application must then detect conflicts itself, by a column (FencedBy).
	Strip LockClausePolicy = "strip"
	// Flag passes a locking clause on to the server. DSQL refuses the clause.
	Flag LockClausePolicy = "flag"
	// Reject makes Sluice answer a statement that has a locking clause with an error.
	Reject LockClausePolicy = "reject"
)

// policyStrengths orders the locking policies. A statement that several policies match gets the strongest policy.
var policyStrengths = map[LockClausePolicy]int{Strip: 1, KeyShare: 2, Update: 3, Flag: 4, Reject: 5}

// These are the locking clauses to which a LockPolicy may be limited.
const (
	ShareClause       = "share"
	NoKeyUpdateClause = "no key update"
)

// LockPolicy assigns a policy to the locking clauses of statements, by the tables that the statements name. The
// assignment depends on the text and the configuration only.
type LockPolicy struct {
	// Tables are patterns of table names, where * matches any text and ? one character. A pattern without a dot matches the
	// table's name in any schema. A pattern with a dot matches only names that the text qualifies.
	Tables []string
	// Clauses lists the clauses to which the policy applies, such as ShareClause. An empty list means all clauses.
	Clauses []string
	Policy  LockClausePolicy
	// FencedBy is the column by which the application detects changes without the lock. The policy Strip requires it.
	FencedBy string
	// Name replaces the operation name of the statements in metrics. With "", verb and table form the name.
	Name string
}

// ByteaMapping says how bytea columns in keys are stored.
type ByteaMapping string

const (
	// ByteaOff means that Sluice does not change bytea columns in keys. The server refuses these columns.
	ByteaOff ByteaMapping = ""
	// ByteaHex means that a bytea column of a key is stored as text of hexadecimal digits (MappedSuffix). The server
	// converts values by encode() and decode().
	ByteaHex ByteaMapping = "hex"
	// ByteaHexCast means storage as with ByteaHex. The server, which has no encode() and decode(), converts by casts.
	ByteaHexCast ByteaMapping = "hex-cast"
)

// Rules enables and configures the rewriting rules. The zero value disables all of them.
type Rules struct {
	// Locking rewrites FOR SHARE and FOR NO KEY UPDATE. The first of Policies that matches table and clause applies. If
	// no policy matches, Update applies.
	Locking  bool
	Policies []LockPolicy
	// Split divides FOR UPDATE over several tables into two statements (Planner.SplitPlan).
	Split bool
	// Index makes CREATE INDEX asynchronous. AwaitIndex also makes Sluice wait for the index job.
	Index, AwaitIndex bool
	// Serial turns serial columns into identity columns, and widens identity columns to bigint. Serial also sets the
	// CACHE option of sequences to SequenceCache; 0 means 1.
	Serial        bool
	SequenceCache int
	// Numeric is the precision that numeric columns without one get, for example "(128,38)". With "", they get none.
	Numeric string
	// SerialForm says whether serial columns become identity columns or get sequences that Sluice creates.
	SerialForm SerialForm
	// SerialKeys widens int columns to bigint if they reference a widened identity column.
	SerialKeys bool
	// Chunked lists patterns of tables, as in LockPolicy.Tables. A DELETE from these tables that exceeds the row limit runs
	// in several transactions (Planner.BatchedDelete).
	Chunked   []string
	Databases bool // Sluice answers CREATE DATABASE and DROP DATABASE itself
	Isolation bool // Sluice replaces isolation levels weaker than DSQL's by DSQL's
	// AddColumn removes a redundant NULL from columns that ALTER TABLE adds.
	AddColumn bool
	// Backfill makes Sluice carry out ALTER TABLE ... ADD COLUMN ... DEFAULT in several transactions. The new column
	// has no NOT NULL (alter.Alteration).
	Backfill bool
	// Enums replaces an enumeration (CREATE TYPE ... AS ENUM) by a domain with a CHECK.
	Enums bool
	// Retype makes Sluice carry out a change of a column's type (Alteration.Retypes).
	Retype bool
	// InTransactions says how Sluice runs DDL that shares a transaction with other statements. The rules use
	// InTransactions for findings only.
	InTransactions DDLInTransactions
	// Constraints makes Sluice add constraints by statements that DSQL supports, in place of the client's ALTER TABLE
	// (Statement.Steps). NotNullCheck replaces an added NOT NULL by a CHECK.
	Constraints, NotNullCheck bool
	Session                   bool // Sluice answers DISCARD PLANS, SEQUENCES and TEMP, and other resets of a session
	// Named makes Sluice handle set_config() of application_name (Statement.SetConfigColumns). Server connections carry
	// Sluice's application_name, not the client's.
	Named bool
	// Cursors makes Sluice handle statements about cursors (Statement.Cursor).
	Cursors bool
	// CopyIn makes Sluice carry out COPY FROM STDIN by INSERTs (Statement.CopyIn).
	CopyIn bool
	// Truncate says how TRUNCATE is rewritten. The value "" means TruncateRefuse.
	Truncate TruncatePolicy
	// Advisory makes Sluice handle advisory locks of sessions (Statement.Advisory). It refuses all other advisory
	// locks.
	Advisory bool
	// Role is the role of every backend. A client's SET ROLE to this role changes nothing.
	Role string
	// SchemaOf returns the schema that replaces the named database. ok is false if no schema does. A nil SchemaOf maps
	// no name. Sluice carries out CREATE and DROP DATABASE of mapped names, even without Databases.
	SchemaOf func(database string) (schema string, ok bool)
	// Extensions makes Sluice answer statements about extensions whose functions DSQL has partly built in. It also
	// rewrites uuid_generate_v4() to gen_random_uuid().
	Extensions bool
	// Weaken rewrites SERIALIZABLE to REPEATABLE READ, with a warning to the client (Statement.Weakened).
	Weaken bool
	// Savepoints says that Sluice emulates savepoints. The rule Dialect then does not report them.
	Savepoints bool
	// Bytea says how bytea columns in keys are stored. The value "" means ByteaOff.
	Bytea ByteaMapping
	// ByteaCheck adds a CHECK to each mapped column (bytea stored as text) of a new table. The CHECK allows only
	// lower-case hexadecimal digits, also for writes that bypass Sluice.
	ByteaCheck bool
	// ByteaColumns lists "table.column" pairs of bytea columns that no key contains. CREATE TABLE stores them as digits
	// all the same, so that a later CREATE INDEX may use them.
	ByteaColumns []string
	// Dialect makes Sluice report statements that DSQL refuses and that no other rule handles.
	Dialect bool
}

// AllRules returns the rules that Sluice recommends for DSQL.
func AllRules() Rules {
	return Rules{Locking: true, Split: true, Index: true, AwaitIndex: true, Serial: true, SequenceCache: 1, SerialForm: SerialAuto, SerialKeys: true, Numeric: "(" + WideNumeric + ")", Databases: true,
		Isolation: true, Session: true, AddColumn: true, Extensions: true, Cursors: true, Constraints: true, Dialect: true}
}

// anyEnabled reports whether at least one rule that edits texts or reports findings is enabled.
func (r *Rules) anyEnabled() bool {
	return r.Locking || r.Split || r.Index || r.Serial || r.Databases || r.SchemaOf != nil || r.Isolation || r.Session || r.AddColumn || r.Extensions || r.Cursors || r.CopyIn ||
		r.Truncate == TruncateDelete || r.Truncate == TruncateBatches || r.Advisory || r.Dialect || r.Bytea != ByteaOff || r.Numeric != ""
}

// SerializableKey is the configuration key that sets Rules.Weaken.
const SerializableKey = "rewrite.serializable"

// policiesKey is the configuration key that sets Rules.Policies.
const policiesKey = "rewrite.locking_policies"

// validate returns an error that joins all problems of the policies, columns, cache size and table patterns in r.
func (r *Rules) validate() error {
	var errs []error
	for i, p := range r.Policies {
		for _, problem := range p.problems() {
			errs = append(errs, fmt.Errorf("%s: policy %d: %s", policiesKey, i+1, problem))
		}
	}
	for _, column := range r.ByteaColumns {
		table, name, _ := strings.Cut(column, ".")
		if table == "" || name == "" || strings.Contains(name, ".") {
			errs = append(errs, fmt.Errorf("%s: %q: want table.column", bytea.ColumnsKey, column))
		} else if len(name) > bytea.MaxMapped {
			errs = append(errs, fmt.Errorf("%s: %q: want a column's name of at most %d bytes: %s is put behind it", bytea.ColumnsKey, column, bytea.MaxMapped, schema.MappedSuffix))
		}
	}
	if size := r.SequenceCache; (size != 0 || r.Serial) && !isAllowedCache(size) {
		errs = append(errs, fmt.Errorf("%s: %d: want 1, or %d or more: DSQL takes no other", SequenceCacheKey, size, manyCached))
	}
	for _, problem := range patternProblems(r.Chunked) {
		errs = append(errs, fmt.Errorf("%s: %s", ChunkedKey, problem))
	}
	return errors.Join(errs...)
}

// patternProblems returns a message for each malformed table pattern.
func patternProblems(patterns []string) (bad []string) {
	for _, pattern := range patterns {
		if pattern == "" || strings.Count(pattern, ".") > 1 {
			bad = append(bad, fmt.Sprintf("%q: want table or schema.table", pattern))
		}
	}
	return bad
}

func (p *LockPolicy) problems() []string {
	var bad []string
	if len(p.Tables) == 0 {
		bad = append(bad, `tables: want at least one pattern, such as "queue_*"`)
	}
	for _, problem := range patternProblems(p.Tables) {
		bad = append(bad, "tables: "+problem)
	}
	for _, c := range p.Clauses {
		if c != ShareClause && c != NoKeyUpdateClause {
			bad = append(bad, fmt.Sprintf("clauses: %q: want %q or %q", c, ShareClause, NoKeyUpdateClause))
		}
	}
	switch {
	case policyStrengths[p.Policy] == 0:
		bad = append(bad, fmt.Sprintf("policy: %q: want update, key-share, strip, flag or reject", p.Policy))
	case p.Policy == Strip && p.FencedBy == "":
		bad = append(bad, "fenced_by: strip takes a guarantee away; name the column whose check replaces it")
	case p.Policy != Strip && p.FencedBy != "":
		bad = append(bad, fmt.Sprintf("fenced_by: %q: has a meaning with policy strip only", p.FencedBy))
	}
	if p.Name != operationName(p.Name) {
		bad = append(bad, fmt.Sprintf("name: %q: want lower-case letters, digits and _, at most %d", p.Name, parse.MaxName))
	}
	return bad
}

// policyFor returns the first locking policy that matches a table and a clause, or nil.
func (r *Rules) policyFor(table, clause string) *LockPolicy {
	for i := range r.Policies {
		if p := &r.Policies[i]; p.coversClause(clause) && p.matchesTable(table) {
			return p
		}
	}
	return nil
}

func (p *LockPolicy) coversClause(clause string) bool {
	for _, c := range p.Clauses {
		if c == clause {
			return true
		}
	}
	return len(p.Clauses) == 0
}

func (p *LockPolicy) matchesTable(table string) bool { return matchesAny(p.Tables, table) }

// matchesAny reports whether one of patterns matches a table name. The name contains a schema only if the text does.
func matchesAny(patterns []string, table string) bool {
	for _, pattern := range patterns {
		name := table
		if dot := strings.LastIndexByte(table, '.'); dot >= 0 {
			if strings.Contains(pattern, ".") {
				schema := table[:dot]
				name = schema[strings.LastIndexByte(schema, '.')+1:] + table[dot:]
			} else {
				name = table[dot+1:]
			}
		}
		if glob(pattern, name) {
			return true
		}
	}
	return false
}

// glob reports whether a name matches a pattern with * and ?. Its time is at most proportional to the product of the
// two lengths.
func glob(pattern, name string) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// strongestPolicy returns the strongest locking policy (policyStrengths) over a statement's tables and clauses, with
// the policy's Name.
func (r *Rules) strongestPolicy(tables, clauses []string) (LockClausePolicy, string) {
	if len(tables) == 0 {
		return Update, ""
	}
	strongest, name := LockClausePolicy(""), ""
	for _, table := range tables {
		for _, clause := range clauses {
			policy, called := Update, ""
			if p := r.policyFor(table, clause); p != nil {
				policy, called = p.Policy, p.Name
			}
			if policyStrengths[policy] > policyStrengths[strongest] {
				strongest, name = policy, called
			}
		}
	}
	return strongest, name
}
