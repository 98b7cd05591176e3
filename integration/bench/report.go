package main

import (
	"encoding/json"
	"os"
)

// report is the outcome of a run, as stored in docs/bench.json.
type report struct {
	Date       string `json:"date"`
	CPU        string `json:"cpu"`
	PostgreSQL string `json:"postgresql"`
	PgBouncer  string `json:"pgbouncer"`
	Sluice     string `json:"sluice"`
	TLS        string `json:"tls"` // from the proxies to the server
	Scale      int    `json:"scale"`
	Pool       int    `json:"pool"` // backends of each proxy
	Rounds     int    `json:"rounds"`
	Seconds    int    `json:"seconds_per_sample"`

	// Foreign sums up the CPU cores that other programs used, over all samples of the load. Doubtful is the number of
	// samples above doubtfulCores. Stolen is the CPU time that the hypervisor withheld.
	Foreign  roundSummary `json:"foreign_cores"`
	Stolen   roundSummary `json:"stolen_cores"`
	Doubtful int          `json:"doubtful_samples"`

	Workloads []workloadResult `json:"workloads"`
	// Shares has the share of functions in Sluice's CPU time, for the workloads with the highest CPU time relative to
	// PgBouncer.
	Shares   []workloadShares   `json:"shares,omitempty"`
	Idle     *idleResult        `json:"idle,omitempty"`
	Delayed  []delayedResult    `json:"delayed"`
	Features []featureResult    `json:"features"`
	Faults   []faultResult      `json:"faults,omitempty"`
	Fights   []contentionResult `json:"fights,omitempty"`
	Pauses   []pauseResult      `json:"pauses,omitempty"`
	// LogBytes is the size of the replay log of an open transaction of four statements, or 0 if it was not measured.
	LogBytes float64      `json:"log_bytes_per_transaction,omitzero"`
	Goals    []goalResult `json:"goals"`
	Failures []string     `json:"failures,omitempty"`
}

// workloadResult has the figures of one workload: those of each candidate (proxy or direct connection), and ratios
// between candidates.
type workloadResult struct {
	ID        string           `json:"id"`
	Title     string           `json:"title"`
	Note      string           `json:"note,omitempty"`
	Direct    candidateFigures `json:"direct"`
	PgBouncer candidateFigures `json:"pgbouncer"`
	Sluice    candidateFigures `json:"sluice"`

	// These are ratios of Sluice's figure to that of PgBouncer or of the direct connection, in the same round.
	RateToPgBouncer     roundSummary `json:"rate_to_pgbouncer"`
	RateToDirect        roundSummary `json:"rate_to_direct"`
	CPUToPgBouncer      roundSummary `json:"cpu_to_pgbouncer"`
	AddedP50ToPgBouncer roundSummary `json:"added_p50_to_pgbouncer"` // beyond direct's
}

// candidateFigures holds the figures of one candidate (proxy or direct connection) in a workload.
type candidateFigures struct {
	Rate    roundSummary `json:"per_second"`
	P50     roundSummary `json:"p50_us"`
	P99     roundSummary `json:"p99_us"`
	CPU     roundSummary `json:"cpu_seconds_per_100k,omitzero"` // of the proxy
	Foreign roundSummary `json:"foreign_cores"`
}

// idleResult is the resident memory per idle client, in KiB.
type idleResult struct {
	Clients   int          `json:"clients"`
	PgBouncer roundSummary `json:"pgbouncer_kib_per_client"`
	Sluice    roundSummary `json:"sluice_kib_per_client"`
}

// delayedResult compares one driver's transactions with and without Sluice, against the distant server.
type delayedResult struct {
	Driver string        `json:"driver"`
	Direct driverFigures `json:"direct"`
	Sluice driverFigures `json:"sluice"`
	Ratio  roundSummary  `json:"rate_to_direct"`
}

// featureResult compares the rates with a feature on and off.
type featureResult struct {
	ID    string       `json:"id"`
	Title string       `json:"title"`
	Off   roundSummary `json:"off_per_second"`
	On    roundSummary `json:"on_per_second"`
	Ratio roundSummary `json:"rate_on_to_off"`
}

type driverFigures struct {
	Rate       roundSummary `json:"transactions_per_second"`
	RoundTrips roundSummary `json:"round_trips_per_transaction"`
}

func newWorkloadResult(w *workload, taken map[string]*sampleSeries) workloadResult {
	d, p, s := taken[direct], taken[pgBouncer], taken[sluice]
	return workloadResult{
		ID: w.id, Title: w.title, Note: w.note,
		Direct: newCandidateFigures(d), PgBouncer: newCandidateFigures(p), Sluice: newCandidateFigures(s),
		RateToPgBouncer:     summarize(roundRatios(s.rate, p.rate)),
		RateToDirect:        summarize(roundRatios(s.rate, d.rate)),
		CPUToPgBouncer:      summarize(roundRatios(s.cpu, p.cpu)),
		AddedP50ToPgBouncer: summarize(addedRatios(s.p50, p.p50, d.p50)),
	}
}

func newCandidateFigures(s *sampleSeries) candidateFigures {
	return candidateFigures{
		Rate:    summarize(s.rate),
		P50:     summarize(s.p50),
		P99:     summarize(s.p99),
		CPU:     summarize(s.cpu),
		Foreign: summarize(s.foreign),
	}
}

// workloadByID returns the result of the workload with this id, or the zero result if it was not measured.
func (r *report) workloadByID(id string) workloadResult {
	for _, w := range r.Workloads {
		if w.ID == id {
			return w
		}
	}
	return workloadResult{}
}

// driverByName returns the result of the driver with this name, or the zero result if it was not measured.
func (r *report) driverByName(name string) delayedResult {
	for _, d := range r.Delayed {
		if d.Driver == name {
			return d
		}
	}
	return delayedResult{}
}

// featureByID returns the result of the feature with this id, or the zero result if it was not measured.
func (r *report) featureByID(id string) featureResult {
	for _, f := range r.Features {
		if f.ID == id {
			return f
		}
	}
	return featureResult{}
}

// faultByID returns the result of the faulty workload with this id, or the zero result if it was not measured. A
// fault is an error or a cut that dsqlsim injects.
func (r *report) faultByID(id string) faultResult {
	for _, f := range r.Faults {
		if f.ID == id {
			return f
		}
	}
	return faultResult{}
}

// conflictRate returns the share of transactions that ended with a conflict at the client. In the measurement clients
// compete for one row. fight is the measurement's index in Fights.
func (r *report) conflictRate(fight int) roundSummary {
	if fight >= len(r.Fights) {
		return roundSummary{}
	}
	return r.Fights[fight].Told
}

func (r *report) writeJSON(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

func readReport(path string) (*report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r report
	return &r, json.Unmarshal(text, &r)
}
