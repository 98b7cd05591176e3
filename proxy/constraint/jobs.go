package constraint

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// The background jobs that look at rows, as sys.jobs has them.

// askJobs asks sys.jobs, and once more where the server refuses that for now. refused is why it cannot be read:
// behind such an answer nobody knows whether there is a job.
func askJobs(server Server, sql string, row func([]string)) (refused *wire.Error, err error) {
	for left := lateness; ; left -= pauseLate {
		err := server.Ask(sql, row)
		refused := server.Refused(err)
		switch {
		case refused == nil:
			return nil, err
		case forGood(refused.Code) || left <= 0:
			return refused, nil
		}
		if err := server.Pause(pauseLate); err != nil {
			return nil, err
		}
	}
}

// forGood reports SQLSTATEs of a server that has no sys.jobs, or none for this role.
func forGood(code string) bool {
	switch code {
	case "42501", "42P01", "3F000", undefinedColumn, "42883", "0A000":
		return true
	}
	return false
}

// notReadable says why nobody knows whether there is a job.
func notReadable(refused *wire.Error) string {
	return "Whether a job builds it is not known, since sys.jobs cannot be read: " + refused.Message + "."
}

// jobEnd is what a job has come to.
type jobEnd struct{ status, details string }

// JobRuns reports a status of sys.jobs that another one will follow.
func JobRuns(status string) bool {
	switch status {
	case "submitted", "processing", "running", "pending":
		return true
	}
	return false
}

// failed reports a status of sys.jobs that no valid index follows.
func failed(status string) bool {
	switch status {
	case "failed", "cancelled", "canceled":
		return true
	}
	return false
}

// begin sends a statement that begins a job, and returns the job; "" where nothing is to do.
func (c *Work) begin(sql string) (id string, err error) {
	err = c.server.Ask(sql, func(v []string) {
		if len(v) == 1 {
			id = v[0]
		}
	})
	return id, err
}

// job begins a job and waits for its end.
func (c *Work) job(sql string) (jobEnd, error) {
	id, err := c.begin(sql)
	if err != nil {
		return jobEnd{}, err
	}
	return c.await(id)
}

// await waits for the end of a job. Cancel, the statement timeout, the client's end and the cut
// end the wait. Of a job that is not there, or that nobody may ask for, nothing is said.
func (c *Work) await(id string) (end jobEnd, err error) {
	if id == "" {
		return end, nil
	}
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		end = jobEnd{}
		_, err := askJobs(c.server, "SELECT status, details FROM sys.jobs WHERE job_id = "+literal(id), func(v []string) {
			if len(v) == 2 {
				end = jobEnd{v[0], v[1]}
			}
		})
		if err != nil {
			return end, err
		}
		if !JobRuns(end.status) {
			return end, nil
		}
		if err := c.server.Pause(pause); err != nil {
			return end, err
		}
	}
}

// Pauses between looks at a job: short for the small tables of tests and tools.
const (
	pauseFirst = 20 * time.Millisecond
	pauseMost  = time.Second
	// pauseLate is the longest between looks at what a job that has ended was for.
	pauseLate = 100 * time.Millisecond
)

// lateness is how long the catalog may take to show what a job has done that says nothing of a
// failure.
const lateness = 2 * time.Second

// holds asks whether the catalog has what a job was for, by a query of one row. What somebody
// else has made, and dropped meanwhile, is an error.
func (c *Work) holds(end jobEnd, query string) (valid bool, err error) {
	for left := lateness; ; left -= pauseLate {
		there := false
		err := c.server.Ask(query, func(v []string) { there, valid = true, firstOf(v) == "t" })
		switch {
		case err != nil:
			return false, err
		case !there:
			c.found = nil
			return false, &wire.Error{Code: "42704", Message: "what the statement was to validate does not exist any more", Detail: "Another session has dropped it.",
				Hint: "See why, and send the statement again."}
		case valid || end.details != "" || failed(end.status) || left <= 0:
			return valid, nil
		}
		if err := c.server.Pause(pauseLate); err != nil {
			return false, err
		}
	}
}
