package constraint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// IndexJob follows the background job of a CREATE INDEX that the server has accepted. The client gets an answer when
// the index is valid. IndexJob drops an index that stays invalid, since PostgreSQL leaves none, and the client gets
// PostgreSQL's error.
type IndexJob struct {
	Notices [][]byte // sent to the client before the tag

	server  Server
	id      string             // of the job in sys.jobs; "" for none
	own     bool               // the statement itself has started the job
	unasked bool               // the reason of a failure is not needed
	stays   bool               // the index is invalid and could not be dropped
	absent  *rewrite.IndexName // IF NOT EXISTS may have found an index of this name
	oid     string             // of the index; "" until the catalog shows it
}

// NewIndexJob returns an IndexJob that follows the job with this id in sys.jobs. id is "" for a CREATE INDEX that
// started no job. In that case named is the index of its IF NOT EXISTS, or nil.
func NewIndexJob(server Server, id string, named *rewrite.IndexName) *IndexJob {
	return &IndexJob{server: server, id: id, own: id != "", absent: named}
}

// ID returns the job's id in sys.jobs, or "" for none.
func (j *IndexJob) ID() string { return j.id }

// IsOwn reports whether the client's own CREATE INDEX has started the job.
func (j *IndexJob) IsOwn() bool { return j.own }

// Withdraw drops the index of a CREATE INDEX that its client no longer awaits, even if the job is still running.
// Withdraw reports whether the index is valid. A valid index stays. So does another statement's index, which IF NOT
// EXISTS has found. After an error an invalid index may remain. server bounds the time of its calls.
func (j *IndexJob) Withdraw(server Server) (valid bool, err error) {
	if !j.own {
		return false, nil
	}
	j.server = server
	for {
		shown, err := j.readState()
		switch {
		case err != nil || shown.valid:
			return shown.valid, err
		case j.oid != "":
			_, valid, err = j.dropIndex()
			return valid, err
		case shown.refused != nil:
			return false, shown.refused
		case shown.seen && !IsJobRunning(shown.end.status): // and its index is gone
			return false, nil
		}
		if err := j.server.Pause(pauseLate); err != nil {
			return false, err
		}
	}
}

// WithdrawUnique withdraws a UNIQUE index like Withdraw, because it would refuse rows after a failed job. Any other
// index stays, and its job continues.
func (j *IndexJob) WithdrawUnique(server Server) (valid bool, err error) {
	j.server = server
	if j.own && j.oid != "" {
		if x, err := j.readIndex(); err != nil || x.name != "" && !x.unique {
			return x.valid, err
		}
	}
	return j.Withdraw(server)
}

// FinishWithoutClient awaits the job of a CREATE INDEX whose client has left, and drops an index that is invalid in the
// end. After an error an invalid index may remain. server bounds the time of its calls.
func (j *IndexJob) FinishWithoutClient(server Server) error {
	if !j.own {
		return nil
	}
	j.server, j.unasked = server, true
	err := j.Await()
	if j.server.RefusalFrom(err) != nil && !j.stays {
		return nil
	}
	return err
}

// Await waits for the job's end. Await returns nil for a valid index, and the error for the client otherwise. Await
// returns an error of Server.Pause unchanged, while the job continues.
func (j *IndexJob) Await() error {
	if j.id == "" {
		return j.checkExistingIndex()
	}
	ended, left := jobResult{}, lateness // left is the time for the catalog to show an ended job's index
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		shown, err := j.readState()
		switch {
		case err != nil:
			return err
		case shown.valid:
			return nil
		case shown.refused != nil, !shown.seen && j.oid == "":
			j.warnUnknownResult(shown.refused)
			return nil
		case shown.seen && IsJobRunning(shown.end.status):
			left = lateness
		case shown.end.details != "", isFailedStatus(shown.end.status), left <= 0:
			if shown.seen {
				ended = shown.end
			}
			return j.dropAndExplain(ended)
		default:
			pause = min(pause, pauseLate)
			left -= pause
		}
		if shown.seen {
			ended = shown.end
		}
		if err := j.server.Pause(pause); err != nil {
			return err
		}
	}
}

// jobState is the state of a job and its index, as read from the server.
type jobState struct {
	end     jobResult
	seen    bool        // sys.jobs has the job
	valid   bool        // the index is
	refused *wire.Error // why sys.jobs cannot be read; nil if it can
}

// readState reads the state of the job and its index from the server.
func (j *IndexJob) readState() (shown jobState, err error) {
	shown.refused, err = queryJobs(j.server, `SELECT j.status, j.details, i.indexrelid, i.indisvalid FROM sys.jobs j LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = j.object_id`+
		` WHERE j.job_id = `+quoteLiteral(j.id), func(v []string) {
		if len(v) == 4 {
			shown.end, shown.seen, shown.valid = jobResult{status: v[0], details: v[1]}, true, v[3] == "t"
			if v[2] != "" {
				j.oid = v[2]
			}
		}
	})
	if err != nil || shown.seen || j.oid == "" {
		return shown, err
	}
	err = j.server.Ask("SELECT indisvalid FROM pg_catalog.pg_index WHERE indexrelid = "+j.oid, func(v []string) { shown.valid = firstValue(v) == "t" })
	return shown, err
}

// warnUnknownResult warns the client that the job's result is unknown. sys.jobs does not have the job, or cannot be
// read.
func (j *IndexJob) warnUnknownResult(refused *wire.Error) {
	detail := fmt.Sprintf("sys.jobs shows no job \"%s\" to this role.", j.id)
	if refused != nil {
		detail = unreadableJobsText(refused)
	}
	warning := &wire.Error{Code: "01000", Message: "the index is being built, and its job cannot be read",
		Detail: detail, Hint: "See pg_index.indisvalid before you rely on the index."}
	j.Notices = append(j.Notices, warning.AppendNotice(nil, "WARNING"))
}

// checkExistingIndex handles a CREATE INDEX that started no job. A relation of the index's name satisfies IF NOT
// EXISTS, but an invalid index does not. An index whose job has ended meanwhile may become valid a little later.
func (j *IndexJob) checkExistingIndex() error {
	if j.absent == nil {
		return nil
	}
	for left := lateness; ; left -= pauseLate {
		there, valid, err := j.lookUpIndex()
		switch {
		case err != nil || valid || !there && j.oid == "":
			return err
		case !there:
			return errIndexGone
		}
		running, status := "", ""
		refused, err := queryJobs(j.server, "SELECT job_id, status FROM sys.jobs WHERE object_id = "+j.oid, func(v []string) {
			if len(v) == 2 && running == "" {
				if status = v[1]; IsJobRunning(status) {
					running = v[0]
				}
			}
		})
		switch {
		case err != nil:
			return err
		case refused != nil:
			return j.invalidIndexError(unreadableJobsText(refused))
		case running != "":
			j.id = running
			return j.Await()
		case isFailedStatus(status), left <= 0:
			return j.invalidIndexError("The job that was to build it has failed.")
		}
		if err := j.server.Pause(pauseLate); err != nil {
			return err
		}
	}
}

// lookUpIndex looks up the index that IF NOT EXISTS names.
func (j *IndexJob) lookUpIndex() (there, valid bool, err error) {
	err = j.server.Ask(fmt.Sprintf(`SELECT i.indexrelid, i.indisvalid FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid`+
		` WHERE c.relname = %s AND c.relnamespace = (SELECT t.relnamespace FROM pg_catalog.pg_class t WHERE t.oid = pg_catalog.to_regclass(%s))`,
		quoteLiteral(j.absent.Name), quoteLiteral(j.absent.Table)), func(v []string) {
		if len(v) == 2 {
			j.oid, there, valid = v[0], true, v[1] == "t"
		}
	})
	return there, valid, err
}

// invalidIndexError returns the error for an invalid index that IF NOT EXISTS has found. why is its DETAIL.
func (j *IndexJob) invalidIndexError(why string) *wire.Error {
	return &wire.Error{Code: "55000", Message: fmt.Sprintf("index \"%s\" exists, and is not valid", j.absent.Name), Detail: why,
		Hint: fmt.Sprintf("Unless a job is at work at it (sys.jobs): DROP INDEX %s, and send the statement again: it says then which rows the index is against.", quoteIdent(j.absent.Name))}
}

// UncheckedIndexWarning returns the WARNING for a CREATE INDEX IF NOT EXISTS that started no job and whose index is not
// checked. Sluice does not check it in a transaction, or before other statements.
func UncheckedIndexWarning(named *rewrite.IndexName) []byte {
	warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("relation \"%s\" exists, and was not looked at", named.Name),
		Detail: "An index of that name may not be valid. Sluice looks where the statement is sent alone, outside of a transaction.",
		Hint:   "See pg_index.indisvalid before you rely on the index."}
	return warning.AppendNotice(nil, "WARNING")
}

// UnawaitedJobWarning returns the WARNING for a CREATE INDEX whose job is not awaited. The WARNING names no job,
// because a replay starts another job and must answer the same.
func UnawaitedJobWarning() []byte {
	warning := &wire.Error{Code: "01000", Message: "the index is built in the background, and nobody waits for it",
		Detail: "Where rows are against it, it stays, and is not valid.",
		Hint:   "See sys.jobs and pg_index.indisvalid before you rely on the index, or send nothing behind its COMMIT."}
	return warning.AppendNotice(nil, "WARNING")
}

// errIndexGone is the error for an index that another session dropped while it was built.
var errIndexGone = &wire.Error{Code: "42704", Message: "the index does not exist any more", Detail: "Another session has dropped it while it was built.", Hint: "Send the statement again."}

// indexInfo describes an index as the catalog shows it.
type indexInfo struct {
	schema, name, table, tableSchema, where string
	valid, unique, nullsAlike               bool
	keys                                    []string // in PostgreSQL's notation
}

// dropAndExplain drops the invalid index, and returns the error that says why it could not be built.
func (j *IndexJob) dropAndExplain(end jobResult) error {
	if j.oid == "" {
		return errIndexGone
	}
	x, err := j.readIndex()
	if err != nil || x.valid {
		return err
	}
	if x.name == "" {
		return errIndexGone
	}
	why, err := j.failureReason(x, end)
	if err != nil {
		return err
	}
	_, valid, err := j.dropIndex()
	switch {
	case err == nil && valid:
		return nil
	case err != nil && j.server.RefusalFrom(err) == nil && !j.server.ChangedNothing(err):
		return err
	case err != nil:
		j.stays = true
		why.Hint = "The index is not valid, and could not be dropped. To drop it: " + x.dropSQL() + "."
	}
	return why
}

// dropSQL returns the DROP INDEX statement for the index.
func (x *indexInfo) dropSQL() string {
	return "DROP INDEX " + quoteIdent(x.schema) + "." + quoteIdent(x.name)
}

// codeNoDivision is the SQLSTATE of a division by zero.
const codeNoDivision = "22012"

// dropIndex drops the index, unless it is valid or gone. Another session may have given the name to another index. So a
// query in the same transaction fails before the DROP if the name belongs to another index.
func (j *IndexJob) dropIndex() (x indexInfo, valid bool, err error) {
	for range mostRenamed {
		if x, err = j.readIndex(); err != nil || x.valid || x.name == "" {
			return x, x.valid, err
		}
		err = j.server.Ask(fmt.Sprintf(`SELECT 1 / pg_catalog.count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace`+
			` WHERE c.oid = %s AND c.relname = %s AND n.nspname = %s; %s`, j.oid, quoteLiteral(x.name), quoteLiteral(x.schema), x.dropSQL()), nil)
		told := j.server.RefusalFrom(err)
		if told == nil || told.Code != codeNoDivision && !slices.Contains(notThere, told.Code) {
			return x, false, err
		}
	}
	return x, false, err
}

// mostRenamed bounds the attempts of IndexJob.dropIndex while other sessions rename the index.
const mostRenamed = 3

// readIndex reads the description of the index from the catalog.
func (j *IndexJob) readIndex() (x indexInfo, err error) {
	err = j.server.Ask(fmt.Sprintf(`SELECT n.nspname, c.relname, m.nspname, t.relname, i.indisunique, i.indnullsnotdistinct, COALESCE(pg_catalog.pg_get_expr(i.indpred, i.indrelid), ''),`+
		` pg_catalog.pg_get_indexdef(i.indexrelid, k::int, true), i.indisvalid FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace`+
		` JOIN pg_catalog.pg_class t ON t.oid = i.indrelid JOIN pg_catalog.pg_namespace m ON m.oid = t.relnamespace CROSS JOIN pg_catalog.generate_series(1, i.indnkeyatts) k`+
		` WHERE i.indexrelid = %s ORDER BY k`, j.oid), func(v []string) {
		if len(v) == 9 {
			x.schema, x.name, x.tableSchema, x.table, x.unique, x.nullsAlike, x.where = v[0], v[1], v[2], v[3], v[4] == "t", v[5] == "t", v[6]
			x.keys, x.valid = append(x.keys, v[7]), v[8] == "t"
		}
	})
	return x, err
}

// failureReason returns the error for an index that was not built. The error is PostgreSQL's if rows show the cause,
// otherwise the job's.
func (j *IndexJob) failureReason(x indexInfo, end jobResult) (*wire.Error, error) {
	var found *wire.Error
	if x.unique && !j.unasked {
		n := len(x.keys)
		err := j.server.Ask(x.duplicatesQuery(), func(v []string) {
			if len(v) == 2*n {
				found = duplicateKeyError(x.name, x.keys, v[:n], v[n:])
			}
		})
		switch told := j.server.RefusalFrom(err); {
		case told != nil && strings.HasPrefix(told.Code, "22"): // an expression of the index fails for a row
			found = told
		case err != nil && told == nil:
			return nil, err
		}
	}
	if found == nil {
		found = &wire.Error{Code: "58000", Message: fmt.Sprintf("the index \"%s\" was not built: its job is %s", x.name, describeStatus(end)), Detail: end.details,
			Hint: "The index is dropped. See sys.jobs, and send the statement again."}
	}
	found.Schema, found.Table = x.tableSchema, x.table
	return found, nil
}

// duplicatesQuery returns the query for values that more than one row has. Its columns are the keys, and then for
// each key whether it is NULL.
func (x *indexInfo) duplicatesQuery() string {
	var nulls, where []string
	for _, key := range x.keys {
		nulls = append(nulls, "("+key+") IS NULL")
		if !x.nullsAlike {
			where = append(where, "("+key+") IS NOT NULL")
		}
	}
	if x.where != "" {
		where = append(where, "("+x.where+")")
	}
	condition := ""
	if len(where) > 0 {
		condition = " WHERE " + strings.Join(where, " AND ")
	}
	keys := "(" + strings.Join(x.keys, "), (") + ")"
	return fmt.Sprintf("SELECT %s, %s FROM %s.%s%s GROUP BY %s HAVING count(*) > 1 ORDER BY %s LIMIT 1",
		keys, strings.Join(nulls, ", "), quoteIdent(x.tableSchema), quoteIdent(x.table), condition, keys, keys)
}

// describeStatus returns the final status of a job in words.
func describeStatus(end jobResult) string {
	switch end.status {
	case "":
		return "not known"
	case "completed", "succeeded":
		return end.status + " without it"
	}
	return end.status
}
