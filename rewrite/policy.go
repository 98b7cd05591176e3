package rewrite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/bytea"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Policy is what becomes of FOR SHARE and FOR NO KEY UPDATE.
type Policy string

const (
	// Update makes it FOR UPDATE: the only rewrite that keeps the guarantee that a
	// row read did not change until COMMIT. Readers then conflict with each other.
	Update Policy = "update"
	// KeyShare makes it FOR KEY SHARE: a guarantee against DELETE and changes of
	// the key only.
	KeyShare Policy = "key-share"
	// Strip takes it out. Nothing is guaranteed: something else must be the fence.
	Strip Policy = "strip"
	// Flag passes it on; DSQL refuses it.
	Flag Policy = "flag"
	// Reject refuses it here.
	Reject Policy = "reject"
)

// strengths order the policies: of several the strongest holds for a statement.
var strengths = map[Policy]int{Strip: 1, KeyShare: 2, Update: 3, Flag: 4, Reject: 5}

// Clauses that a LockPolicy may be limited to.
const (
	ShareClause       = "share"
	NoKeyUpdateClause = "no key update"
)

// LockPolicy says what becomes of the locking clauses of statements that name
// certain tables. It never depends on the execution.
type LockPolicy struct {
	// Tables are patterns: * stands for any text, ? for one character. One without
	// a dot is for the table's name in any schema; one with a dot only for names
	// that the text qualifies.
	Tables []string
	// Clauses are ShareClause and NoKeyUpdateClause; none means both.
	Clauses []string
	Policy  Policy
	// FencedBy names the column that fences in the clause's place; Strip needs it.
	FencedBy string
	// Name is the operation of the statements that this policy is for, in metrics;
	// "" for the one made of verb and table.
	Name string
}

// ByteaMapping is what becomes of columns of type bytea that are in keys.
type ByteaMapping string

const (
	// ByteaOff maps nothing: the server refuses such a column.
	ByteaOff ByteaMapping = ""
	// ByteaHex stores it as text of hexadecimal digits (MappedSuffix); the server converts,
	// by encode() and decode().
	ByteaHex ByteaMapping = "hex"
	// ByteaHexCast likewise, by casts: for a server that has no encode() and decode().
	ByteaHexCast ByteaMapping = "hex-cast"
)

// Rules switches the rules; the zero value is none of them.
type Rules struct {
	// Locking rewrites FOR SHARE and FOR NO KEY UPDATE by Policies: the first that
	// matches a table and clause holds, and Update where none does.
	Locking  bool
	Policies []LockPolicy
	// Split makes the other form of FOR UPDATE over several tables (Planner.Split).
	Split bool
	// Index makes CREATE INDEX asynchronous; AwaitIndex has the relay wait for the job.
	Index, AwaitIndex bool
	// Serial makes serial columns identity columns, identity columns bigint, and gives sequences
	// a cache that DSQL takes: SequenceCache, which is 1 where it is 0.
	Serial        bool
	SequenceCache int
	// Numeric is what a column of type numeric gets that says no precision, as "(128,38)"; "" for nothing.
	Numeric string
	// SerialForm says whether they become that at once, or sequences are made where the relay can.
	SerialForm SerialForm
	// SerialKeys has columns of int that refer to such an identity be bigint, as it is.
	SerialKeys bool
	// Chunked are tables, as in LockPolicy.Tables, of which the relay deletes more rows than
	// one transaction may change in several (Planner.Chunked).
	Chunked   []string
	Databases bool // answer CREATE DATABASE and DROP DATABASE
	Isolation bool // weaker isolation levels to DSQL's
	// AddColumn takes NULL, which says nothing, from the columns that ALTER TABLE adds.
	AddColumn bool
	// Backfill leaves ALTER TABLE ... ADD COLUMN ... DEFAULT to the relay, to be carried out in
	// several transactions and without NOT NULL (Statement.Alteration).
	Backfill bool
	// Enums has a domain stand for an enumeration.
	Enums bool
	// Retype has the relay carry out a change of a column's type (Alteration.Retypes).
	Retype bool
	// InTransactions says what the relay does about DDL in a transaction beside other
	// statements; it changes findings only.
	InTransactions InTransactions
	// Constraints leaves ALTER TABLE that adds constraints to the relay, to be carried out in the
	// steps that DSQL has (Statement.Constraints). NotNullCheck takes NOT NULL there for a CHECK.
	Constraints, NotNullCheck bool
	Session                   bool // answer DISCARD PLANS, SEQUENCES and TEMP, and what else resets a session
	// Named leaves set_config() of application_name to the relay, where no server has that of a client (Statement.Told).
	Named bool
	// Cursors leaves statements about cursors to the relay (Statement.Cursor).
	Cursors bool
	// CopyIn leaves COPY FROM STDIN to the relay, to be carried out by INSERTs (Statement.CopyIn).
	CopyIn bool
	// Truncate is what becomes of TRUNCATE; "" is TruncateRefuse.
	Truncate TruncatePolicy
	// Advisory leaves advisory locks of sessions to the relay (Statement.Advisory), and refuses
	// other uses of such locks.
	Advisory bool
	// Role is the one that every session has at the backend: a statement that sets it changes nothing.
	Role string
	// SchemaOf tells the schema that a database's name stands for; ok is false for a name
	// that stands for none. nil: no name does. CREATE DATABASE and DROP DATABASE of such
	// names are the relay's to carry out, whatever Databases says.
	SchemaOf func(database string) (schema string, ok bool)
	// Extensions answers statements about extensions that DSQL has a part of built in, and makes
	// uuid_generate_v4() gen_random_uuid().
	Extensions bool
	// Weaken takes SERIALIZABLE for REPEATABLE READ, of which the relay warns (Statement.Weakened).
	Weaken bool
	// Savepoints says that the relay emulates them: Dialect finds nothing in them.
	Savepoints bool
	// Bytea says how columns of type bytea that are in keys are stored; "" is ByteaOff.
	Bytea ByteaMapping
	// ByteaCheck gives each mapped column of a new table a CHECK that holds what is written to
	// it, by whomever, to lower-case hexadecimal digits.
	ByteaCheck bool
	// ByteaColumns are columns, each as table.column, that a new table maps though they are in
	// no key: for an index to come.
	ByteaColumns []string
	// Dialect finds what DSQL refuses and no rule handles.
	Dialect bool
}

// AllRules are the rules for DSQL.
func AllRules() Rules {
	return Rules{Locking: true, Split: true, Index: true, AwaitIndex: true, Serial: true, SequenceCache: 1, SerialForm: SerialAuto, SerialKeys: true, Numeric: "(" + WideNumeric + ")", Databases: true,
		Isolation: true, Session: true, AddColumn: true, Extensions: true, Cursors: true, Constraints: true, Dialect: true}
}

// any reports whether there is anything to look for.
func (r *Rules) any() bool {
	return r.Locking || r.Split || r.Index || r.Serial || r.Databases || r.SchemaOf != nil || r.Isolation || r.Session || r.AddColumn || r.Extensions || r.Cursors || r.CopyIn ||
		r.Truncate == TruncateDelete || r.Truncate == TruncateBatches || r.Advisory || r.Dialect || r.Bytea != ByteaOff || r.Numeric != ""
}

// SerializableKey is the configuration key of Weaken.
const SerializableKey = "rewrite.serializable"

// policiesKey is the configuration key of Policies.
const policiesKey = "rewrite.locking_policies"

// validate reports every bad policy and column at once.
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
	if size := r.SequenceCache; (size != 0 || r.Serial) && !fitsCache(size) {
		errs = append(errs, fmt.Errorf("%s: %d: want 1, or %d or more: DSQL takes no other", SequenceCacheKey, size, manyCached))
	}
	for _, problem := range patternProblems(r.Chunked) {
		errs = append(errs, fmt.Errorf("%s: %s", ChunkedKey, problem))
	}
	return errors.Join(errs...)
}

// patternProblems says what is wrong with patterns of tables.
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
	case strengths[p.Policy] == 0:
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

// of finds the policy of one table and clause; nil for the default.
func (r *Rules) of(table, clause string) *LockPolicy {
	for i := range r.Policies {
		if p := &r.Policies[i]; p.concerns(clause) && p.matches(table) {
			return p
		}
	}
	return nil
}

func (p *LockPolicy) concerns(clause string) bool {
	for _, c := range p.Clauses {
		if c == clause {
			return true
		}
	}
	return len(p.Clauses) == 0
}

func (p *LockPolicy) matches(table string) bool { return matchesAny(p.Tables, table) }

// matchesAny reports whether a pattern matches a table as a text names it.
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

// glob matches a name with a pattern of * and ?, in time that goes with the
// product of their lengths.
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

// decide finds the strongest policy over a statement's tables and the clauses
// that stand in it, and the name that the deciding policy gives.
func (r *Rules) decide(tables, clauses []string) (Policy, string) {
	if len(tables) == 0 {
		return Update, ""
	}
	strongest, name := Policy(""), ""
	for _, table := range tables {
		for _, clause := range clauses {
			policy, called := Update, ""
			if p := r.of(table, clause); p != nil {
				policy, called = p.Policy, p.Name
			}
			if strengths[policy] > strengths[strongest] {
				strongest, name = policy, called
			}
		}
	}
	return strongest, name
}
