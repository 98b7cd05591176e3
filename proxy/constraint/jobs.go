package constraint

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file follows the server's background jobs that check rows or build indexes. The server shows them in sys.jobs.

// queryJobs queries sys.jobs, and repeats the query after a temporary refusal. refused is the reason why sys.jobs
// cannot be read. In that case it is unknown whether there is a job.
func queryJobs(server Server, sql string, row func([]string)) (refused *wire.Error, err error) {
	for left := lateness; ; left -= pauseLate {
		err := server.Ask(sql, row)
		refused := server.RefusalFrom(err)
		switch {
		case refused == nil:
			return nil, err
		case isPermanentRefusal(refused.Code) || left <= 0:
			return refused, nil
		}
		if err := server.Pause(pauseLate); err != nil {
			return nil, err
		}
	}
}

// isPermanentRefusal reports whether an SQLSTATE means that the server has no sys.jobs, or that this role may not read
// it.
func isPermanentRefusal(code string) bool {
	switch code {
	case "42501", "42P01", "3F000", undefinedColumn, "42883", "0A000":
		return true
	}
	return false
}

// unreadableJobsText returns a sentence that says why the state of a job is unknown.
func unreadableJobsText(refused *wire.Error) string {
	return "Whether a job builds it is not known, since sys.jobs cannot be read: " + refused.Message + "."
}

// jobResult is the result of a job. unread is the reason why sys.jobs, the server's view of jobs, could not be read, or
// nil.
type jobResult struct {
	status, details string
	unread          *wire.Error
}

// IsJobRunning reports whether a job with this status in sys.jobs has not ended.
func IsJobRunning(status string) bool {
	switch status {
	case "submitted", "processing", "running", "pending":
		return true
	}
	return false
}

// isFailedStatus reports whether a job with this status in sys.jobs cannot have built a valid index.
func isFailedStatus(status string) bool {
	switch status {
	case "failed", "cancelled", "canceled":
		return true
	}
	return false
}

// startJob sends a statement that starts a job, and returns the job's id. The id is "" if no job was started.
func (c *ConstraintAdder) startJob(sql string) (id string, err error) {
	err = c.server.Ask(sql, func(v []string) {
		if len(v) == 1 {
			id = v[0]
		}
	})
	return id, err
}

// runJob starts a job by a statement and waits for the job's end.
func (c *ConstraintAdder) runJob(sql string) (jobResult, error) {
	id, err := c.startJob(sql)
	if err != nil {
		return jobResult{}, err
	}
	return c.awaitJob(id)
}

// awaitJob waits for the end of a job. A cancel, the statement timeout, the client's end and the end of the drain
// interrupt the wait. If the job is missing in sys.jobs, or cannot be read, the jobResult has no status.
func (c *ConstraintAdder) awaitJob(id string) (end jobResult, err error) {
	if id == "" {
		return end, nil
	}
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		end = jobResult{}
		unread, err := queryJobs(c.server, "SELECT status, details FROM sys.jobs WHERE job_id = "+quoteLiteral(id), func(v []string) {
			if len(v) == 2 {
				end = jobResult{status: v[0], details: v[1]}
			}
		})
		if err != nil || unread != nil {
			return jobResult{unread: unread}, err
		}
		if !IsJobRunning(end.status) {
			return end, nil
		}
		if err := c.server.Pause(pause); err != nil {
			return end, err
		}
	}
}

// pauseFirst and pauseMost bound the pauses between looks at a job. The pauses are short at first, for the small tables
// of tests and tools.
const (
	pauseFirst = 20 * time.Millisecond
	pauseMost  = time.Second
	// pauseLate is the usual pause between looks at the catalog for the result of an ended job.
	pauseLate = 100 * time.Millisecond
)

// lateness is how long the catalog may take to show the result of a job that has not failed.
const lateness = 2 * time.Second

// unreadPatience is how long Sluice awaits the result of a job if sys.jobs cannot be read.
const unreadPatience = 10 * time.Minute

// awaitJobResult reports whether the catalog shows a job's result, by a query of one row. False means that the job
// failed.
//
// If sys.jobs cannot be read, only rows that violate the constraint show a failure, because a slow job is not a failed
// one. why checks the rows and returns the error of a violating row, or another error. If the result remains unknown,
// the created object stays. name is the object's name.
func (c *ConstraintAdder) awaitJobResult(name string, end jobResult, query string, why func() error) (valid bool, err error) {
	valid, err = c.awaitCatalog(end, query, lateness)
	if err != nil || valid || end.unread == nil {
		return valid, err
	}
	for _, patience := range []time.Duration{unreadPatience, 0} {
		err := why()
		told := c.server.RefusalFrom(err)
		if told == nil {
			return false, err
		}
		if strings.HasPrefix(told.Code, "22") || strings.HasPrefix(told.Code, "23") {
			return false, nil
		}
		if valid, err = c.awaitCatalog(end, query, patience); err != nil || valid {
			return valid, err
		}
	}
	c.undecided = true
	return false, &wire.Error{Code: "55000", Message: fmt.Sprintf("whether rows are against \"%s\" is not known yet", name), Detail: unreadableJobsText(end.unread),
		Hint: "Send the statement again. GRANT SELECT ON sys.jobs lets Sluice see how the job does.", Schema: c.schema, Table: c.table}
}

// awaitCatalog waits until the catalog shows a job's result by query, at most for the duration left. If another
// session dropped the object meanwhile, awaitCatalog returns an error.
func (c *ConstraintAdder) awaitCatalog(end jobResult, query string, left time.Duration) (valid bool, err error) {
	for pause := pauseLate; ; pause = min(2*pause, max(left/8, pauseLate), pauseMost) {
		there := false
		err := c.server.Ask(query, func(v []string) { there, valid = true, firstValue(v) == "t" })
		switch {
		case err != nil:
			return false, err
		case !there:
			c.found = nil
			return false, &wire.Error{Code: "42704", Message: "what the statement was to validate does not exist any more", Detail: "Another session has dropped it.",
				Hint: "See why, and send the statement again."}
		case valid || end.details != "" || isFailedStatus(end.status) || left <= 0:
			return valid, nil
		}
		if err := c.server.Pause(pause); err != nil {
			return false, err
		}
		left -= pause
	}
}
