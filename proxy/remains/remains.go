// Package remains detects state that functions have left in a server's session, besides settings. The text of a
// client's statement does not show that state, so Sluice asks the server.
package remains

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/rewrite"
)

// StateTrace records whether a backend may hold session state that Sluice does not know. The zero StateTrace says no.
// A StateTrace belongs to the backend, not to a session.
type StateTrace struct{ due, called bool }

// RecordPlan records a plan before Sluice sends its frames, because a statement that fails may leave state too.
func (t *StateTrace) RecordPlan(plan *rewrite.Plan) {
	if plan.Kind == rewrite.Unknown { // the functions that it calls are unknown
		t.RecordCall()
	}
	for i := range plan.Statements {
		st := &plan.Statements[i]
		t.due, t.called = t.due || st.MayLeaveState(), t.called || st.Leaves
	}
}

// RequireQuery records that the backend may hold state, whatever the texts of its statements say.
func (t *StateTrace) RequireQuery() { t.due = true }

// RecordCall records that a function was called which may leave state.
func (t *StateTrace) RecordCall() { t.due, t.called = true, true }

// Clear records that Sluice has asked the server, and that its session holds no unknown state.
func (t *StateTrace) Clear() { *t = StateTrace{} }

// HasCalled reports whether a statement has called a function that may have left state. If the backend is lost, the
// client may have lost that state.
func (t *StateTrace) HasCalled() bool { return t.called }

// NeedsQuery reports whether Sluice must ask the server about state before another client gets the backend.
func (t *StateTrace) NeedsQuery() bool { return t.due }

// stateKinds lists the kinds of state that functions may leave, with their letters in the answer to stateQuery. If a
// backend has several kinds, the first one is the reason.
var stateKinds = []struct {
	letter string
	reason rewrite.PinReason
	exists string
}{
	// The query finds objects that DISCARD TEMP would drop. An empty temporary schema is no state: it remains when a
	// table is dropped with its transaction.
	{"t", rewrite.PinTemp, `SELECT FROM pg_catalog.pg_depend WHERE refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND refobjid = pg_catalog.pg_my_temp_schema()`},
	{"a", rewrite.PinAdvisory, `SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid()`},
	{"p", rewrite.PinPrepare, `SELECT FROM pg_catalog.pg_prepared_statements WHERE from_sql`},
	{"c", rewrite.PinHoldCursor, `SELECT FROM pg_catalog.pg_cursors WHERE is_holdable`},
	{"l", rewrite.PinListen, `SELECT FROM pg_catalog.pg_listening_channels()`},
	{"s", rewrite.PinProcedural, `SELECT FROM pg_catalog.pg_replication_slots WHERE temporary AND active_pid = pg_catalog.pg_backend_pid()`},
}

// roleQuery is a query with one row and one column: the session's role, or "none" without SET ROLE.
const roleQuery = "SELECT pg_catalog.current_setting('role')"

// stateQuery is a query with one row and one column, the answer that PinReason reads. stateQuery must run outside of a
// transaction and without a client's search_path, which affects the look-up of operators.
var stateQuery = func() string {
	var b strings.Builder
	b.WriteString("SELECT pg_catalog.concat(")
	for i, f := range stateKinds {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("CASE WHEN EXISTS (" + f.exists + ") THEN '" + f.letter + "' END")
	}
	return b.String() + ")"
}()

// PinReason returns why a session must keep its backend, by the answer to stateQuery, or NoPin if no state is left.
// ok is false for any text that stateQuery cannot return.
func PinReason(answer string) (reason rewrite.PinReason, ok bool) {
	for _, f := range stateKinds {
		if rest, is := strings.CutPrefix(answer, f.letter); is {
			if answer = rest; reason == rewrite.NoPin {
				reason = f.reason
			}
		}
	}
	return reason, answer == ""
}

// HiddenCallsQuery is two queries. The last has one row and one boolean column: whether a function that may leave state
// can run although no text calls it.
//
// A trigger, a default, a view, a policy, an operator or a cast can run a user's function. So can the name of an
// attribute or of a builtin. A stored expression of a view, default, CHECK, policy, trigger or domain can run a
// builtin, and so can an operator or a cast. PostgreSQL's own views have identifiers below 16384 (FirstNormalObjectId).
//
// A user's function may leave state by its own statements, by a language or form that is not analysed, or by a function
// that its source names. Functions of extensions are excluded. If there are many functions, sources are not searched
// for names, and one function that leaves state counts for all.
//
// The first query turns JIT off for both queries. The planner overestimates the recursion, and PostgreSQL 15 compiled
// for seconds a query that runs for milliseconds.
const HiddenCallsQuery = `SELECT pg_catalog.set_config('jit', 'off', true) WHERE pg_catalog.current_setting('jit', true) IS NOT NULL; WITH RECURSIVE every AS MATERIALIZED (SELECT p.oid, p.proname, p.prosrc, p.pronargs, p.proargtypes,` +
	` l.lanname NOT IN ('sql', 'plpgsql') OR p.prosrc = '' OR p.prosrc ~* '` + statefulPattern + `' OR pg_catalog.regexp_replace(p.prosrc, '` + commentPattern + `', ' ', 'g') ~* '` + statefulPattern + `' AS leaves` +
	` FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace JOIN pg_catalog.pg_language l ON l.oid = p.prolang` +
	` WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND e.objid = p.oid AND e.deptype = 'e')),` +
	` reach AS (SELECT oid, proname FROM every WHERE leaves UNION SELECT p.oid, p.proname FROM every p JOIN reach r ON pg_catalog.strpos(p.prosrc, r.proname) > 0 WHERE (SELECT count(*) FROM every) <= ` + mostFunctions + `),` +
	` builtin AS MATERIALIZED (SELECT oid FROM pg_catalog.pg_proc WHERE pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND proname ~ '` + statefulBuiltins + `'),` +
	` call AS MATERIALIZED (SELECT ':funcid (' || pg_catalog.string_agg(oid::text, '|') || ') ' AS node FROM builtin)` +
	` SELECT EXISTS (SELECT FROM every p WHERE (p.oid IN (SELECT oid FROM reach) OR (SELECT count(*) FROM every) > ` + mostFunctions + ` AND EXISTS (SELECT FROM reach)) AND (` +
	`EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid = p.oid)` +
	` OR EXISTS (SELECT FROM pg_catalog.pg_type t WHERE p.pronargs > 0 AND t.oid = p.proargtypes[0] AND t.typtype NOT IN ('b', 'e'))` +
	` OR EXISTS (SELECT FROM pg_catalog.pg_proc b WHERE b.proname = p.proname AND b.pronamespace = 'pg_catalog'::pg_catalog.regnamespace)))` +
	` OR EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oprcode IN (SELECT oid FROM builtin)) OR EXISTS (SELECT FROM pg_catalog.pg_cast c WHERE c.castfunc IN (SELECT oid FROM builtin))` +
	` OR EXISTS (SELECT FROM call, pg_catalog.pg_rewrite r WHERE r.oid >= 16384 AND (r.ev_action::text ~ call.node OR r.ev_qual::text ~ call.node))` +
	` OR EXISTS (SELECT FROM call, pg_catalog.pg_attrdef d WHERE d.adbin::text ~ call.node)` +
	` OR EXISTS (SELECT FROM call, pg_catalog.pg_constraint c WHERE c.conbin::text ~ call.node)` +
	` OR EXISTS (SELECT FROM call, pg_catalog.pg_policy p WHERE p.polqual::text ~ call.node OR p.polwithcheck::text ~ call.node)` +
	` OR EXISTS (SELECT FROM call, pg_catalog.pg_trigger t WHERE t.tgqual::text ~ call.node)` +
	` OR EXISTS (SELECT FROM call, pg_catalog.pg_type t WHERE t.typdefaultbin::text ~ call.node)`

// commentPattern matches SQL comments, except nested ones. A match may be inside a literal, so the body of a function
// is checked with and without the matches.
const commentPattern = `--[^\n]*|/\*[^*]*\*+([^/*][^*]*\*+)*/`

// statefulBuiltins matches the names of builtin functions that leave state, or that execute the text of an argument.
const statefulBuiltins = `^set_config$|advisory|replication_(slot|origin)|_to_xml|^ts_(stat|rewrite)$`

// statefulPattern is a regular expression for words of statements and functions that leave state. EXECUTE may run any
// statement. SET and RESET count at the start of a statement only, because UPDATE has the word SET too.
const statefulPattern = `execute|\mtemp|pg_temp|advisory|prepare|listen|\mhold\M|\mcreate\M|replication_|set_config|_to_xml|ts_stat|ts_rewrite|(^|;|>>|\mbegin|\mthen|\melse|\mloop)\s*(re)?set\M`

// mostFunctions is the number of functions up to which HiddenCallsQuery searches each source for the others' names.
const mostFunctions = `300`

// hiddenCallsAnswer stores the last answer to HiddenCallsQuery, with its time and the epoch (the version) of the
// schema. The zero hiddenCallsAnswer has no answer. hiddenCallsAnswer is safe for concurrent use.
type hiddenCallsAnswer struct {
	asked  atomic.Int64  // in Unix nanoseconds; 0 means never
	answer atomic.Uint64 // 1 + the epoch, doubled, plus 1 if state may be left; 0 for none
}

// isStale reports whether HiddenCallsQuery should be sent again, because its answer is older than age. If the answer
// belongs to another epoch (version) of the schema, the shorter time rest applies.
func (h *hiddenCallsAnswer) isStale(epoch uint64, now time.Time, age, rest time.Duration) bool {
	if h.answer.Load()>>1 != epoch+1 {
		age = rest
	}
	return now.UnixNano()-h.asked.Load() >= int64(age)
}

// claimQuestion reports whether the caller should send HiddenCallsQuery, because the answer is stale (isStale). Only
// one of several callers gets true. The other callers use the old answer meanwhile.
func (h *hiddenCallsAnswer) claimQuestion(epoch uint64, now time.Time, age, rest time.Duration) bool {
	last := h.asked.Load()
	return h.isStale(epoch, now, age, rest) && h.asked.CompareAndSwap(last, now.UnixNano())
}

// RecordAnswer records an answer to HiddenCallsQuery, which was asked in this epoch (version) of the schema.
func (h *hiddenCallsAnswer) RecordAnswer(epoch uint64, may bool) {
	answer := (epoch + 1) << 1
	if may {
		answer |= 1
	}
	h.answer.Store(answer)
}

// MayLeaveState reports whether every statement may leave state: because the answer to HiddenCallsQuery says so, or
// because there is no answer for this epoch (version) of the schema.
func (h *hiddenCallsAnswer) MayLeaveState(epoch uint64) bool {
	answer := h.answer.Load()
	return answer>>1 != epoch+1 || answer&1 == 1
}
