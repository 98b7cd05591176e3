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

	// Foreign sums up the foreign cores of all samples of the load. Doubtful counts the samples above the limit doubtful.
	// Stolen is the CPU time that the hypervisor withheld.
	Foreign  figure `json:"foreign_cores"`
	Stolen   figure `json:"stolen_cores"`
	Doubtful int    `json:"doubtful_samples"`

	Workloads []result `json:"workloads"`
	// Shares are the CPU shares in the workloads with the highest CPU time relative to PgBouncer.
	Shares   []sharesOf      `json:"shares,omitempty"`
	Idle     *idleResult     `json:"idle,omitempty"`
	Delayed  []delayedResult `json:"delayed"`
	Features []featureResult `json:"features"`
	Faults   []faultResult   `json:"faults,omitempty"`
	Fights   []fightResult   `json:"fights,omitempty"`
	Pauses   []pauseResult   `json:"pauses,omitempty"`
	// LogBytes is the size of the log of an open transaction of four statements; 0: not measured.
	LogBytes float64  `json:"log_bytes_per_transaction,omitzero"`
	Goals    []judged `json:"goals"`
	Failures []string `json:"failures,omitempty"`
}

// result is the result of one workload.
type result struct {
	ID        string   `json:"id"`
	Title     string   `json:"title"`
	Note      string   `json:"note,omitempty"`
	Direct    measured `json:"direct"`
	PgBouncer measured `json:"pgbouncer"`
	Sluice    measured `json:"sluice"`

	// Ratios of Sluice to another candidate, within a round.
	RateToPgBouncer     figure `json:"rate_to_pgbouncer"`
	RateToDirect        figure `json:"rate_to_direct"`
	CPUToPgBouncer      figure `json:"cpu_to_pgbouncer"`
	AddedP50ToPgBouncer figure `json:"added_p50_to_pgbouncer"` // beyond direct's
}

// measured holds the figures of one candidate in a workload.
type measured struct {
	Rate    figure `json:"per_second"`
	P50     figure `json:"p50_us"`
	P99     figure `json:"p99_us"`
	CPU     figure `json:"cpu_seconds_per_100k,omitzero"` // of the proxy
	Foreign figure `json:"foreign_cores"`
}

// idleResult is the resident memory per idle client, in KiB.
type idleResult struct {
	Clients   int    `json:"clients"`
	PgBouncer figure `json:"pgbouncer_kib_per_client"`
	Sluice    figure `json:"sluice_kib_per_client"`
}

// delayedResult compares one driver's transactions with and without Sluice, against the distant server.
type delayedResult struct {
	Driver string  `json:"driver"`
	Direct distant `json:"direct"`
	Sluice distant `json:"sluice"`
	Ratio  figure  `json:"rate_to_direct"`
}

// featureResult compares the rates with a feature on and off.
type featureResult struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Off   figure `json:"off_per_second"`
	On    figure `json:"on_per_second"`
	Ratio figure `json:"rate_on_to_off"`
}

type distant struct {
	Rate       figure `json:"transactions_per_second"`
	RoundTrips figure `json:"round_trips_per_transaction"`
}

func newResult(w *workload, taken map[string]*series) result {
	d, p, s := taken[direct], taken[pgBouncer], taken[sluice]
	return result{
		ID: w.id, Title: w.title, Note: w.note,
		Direct: newMeasured(d), PgBouncer: newMeasured(p), Sluice: newMeasured(s),
		RateToPgBouncer:     summarize(ratios(s.rate, p.rate)),
		RateToDirect:        summarize(ratios(s.rate, d.rate)),
		CPUToPgBouncer:      summarize(ratios(s.cpu, p.cpu)),
		AddedP50ToPgBouncer: summarize(addedRatios(s.p50, p.p50, d.p50)),
	}
}

func newMeasured(s *series) measured {
	return measured{
		Rate:    summarize(s.rate),
		P50:     summarize(s.p50),
		P99:     summarize(s.p99),
		CPU:     summarize(s.cpu),
		Foreign: summarize(s.foreign),
	}
}

// workload returns the result of the workload with this id, the zero result if it was not measured.
func (r *report) workload(id string) result {
	for _, w := range r.Workloads {
		if w.ID == id {
			return w
		}
	}
	return result{}
}

// driver returns the result of one driver, the zero result if it was not measured.
func (r *report) driver(name string) delayedResult {
	for _, d := range r.Delayed {
		if d.Driver == name {
			return d
		}
	}
	return delayedResult{}
}

// feature returns the result of the feature with this id, the zero result if it was not measured.
func (r *report) feature(id string) featureResult {
	for _, f := range r.Features {
		if f.ID == id {
			return f
		}
	}
	return featureResult{}
}

// fault returns the result of the fault load with this id, the zero result if it was not measured.
func (r *report) fault(id string) faultResult {
	for _, f := range r.Faults {
		if f.ID == id {
			return f
		}
	}
	return faultResult{}
}

// told returns the share of a fight's transactions that ended with a conflict at the client.
func (r *report) told(fight int) figure {
	if fight >= len(r.Fights) {
		return figure{}
	}
	return r.Fights[fight].Told
}

func (r *report) write(path string) error {
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
