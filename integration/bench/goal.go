package main

// goal is a target for a figure of the bench. Every release must reach the field bound. Reaching the field aim is
// desirable.
type goal struct {
	title      string
	least      bool    // the figure should be high; else low
	bound, aim float64 // 0: none
	of         func(*report) roundSummary
}

// goals lists all goals. A goal compares with PgBouncer in the same run, unless its title says otherwise.
var goals = []goal{
	{"rate, `SELECT 1`, c=1", true, 0.95, 0, func(r *report) roundSummary { return r.workloadByID(idSelectOne).RateToPgBouncer }},
	{"rate, select-only extended, c=16", true, 1.2, 0, func(r *report) roundSummary { return r.workloadByID(idExtended16).RateToPgBouncer }},
	{"proxy CPU per query, `SELECT 1`, c=1", false, 1.1, 0, func(r *report) roundSummary { return r.workloadByID(idSelectOne).CPUToPgBouncer }},
	{"proxy CPU per query, select-only extended, c=16", false, 1.2, 0, func(r *report) roundSummary { return r.workloadByID(idExtended16).CPUToPgBouncer }},
	{"p50 added to direct, `SELECT 1`, c=1", false, 1.05, 0, func(r *report) roundSummary { return r.workloadByID(idSelectOne).AddedP50ToPgBouncer }},
	{"rate, 10 MB results", true, 1.10, 0, func(r *report) roundSummary { return r.workloadByID(idLargeResult).RateToPgBouncer }},
	{"connects per second", true, 0.85, 0.9, func(r *report) roundSummary { return r.workloadByID(idChurn).RateToPgBouncer }},
	{"proxy CPU per connection", false, 1.4, 1.3, func(r *report) roundSummary { return r.workloadByID(idChurn).CPUToPgBouncer }},
	{"resident KiB per idle client", false, 2.5, 1, func(r *report) roundSummary {
		if r.Idle == nil {
			return roundSummary{}
		}
		return r.Idle.Sluice
	}},
	{"2 ms away, lib/pq: rate, of direct", true, 1.4, 0, func(r *report) roundSummary { return r.driverByName("lib/pq").Ratio }},
	{"2 ms away, lib/pq: round trips per transaction", false, 0, 3, func(r *report) roundSummary { return r.driverByName("lib/pq").Sluice.RoundTrips }},
	{"2 ms away, pgx: rate, of direct", true, 1.15, 0, func(r *report) roundSummary { return r.driverByName("pgx").Ratio }},
	{"2 ms away, pgx: round trips per transaction", false, 0, 3, func(r *report) roundSummary { return r.driverByName("pgx").Sluice.RoundTrips }},
	{"rewriting, of relaying only: select-only prepared, c=16", true, 0.97, 0, func(r *report) roundSummary { return r.featureByID("rewriting-prepared").Ratio }},
	{"rewriting, of relaying only: select-only simple, c=16", true, 0.97, 0, func(r *report) roundSummary { return r.featureByID("rewriting-simple").Ratio }},
	{"replay, of relaying only: TPC-B-like, c=16", true, 0.97, 0, func(r *report) roundSummary { return r.featureByID("replay-tpcb").Ratio }},
	{"replay, of relaying only: select-only prepared, c=16", true, 0.97, 0, func(r *report) roundSummary { return r.featureByID("replay-prepared").Ratio }},
	{"5 s after one fault, of before: INSERT, OC001", true, 0.9, 0, func(r *report) roundSummary { return r.faultByID("insert").Ratio }},
	{"5 s after one fault, of before: nextval and UPDATE, OC000", true, 0.9, 0, func(r *report) roundSummary { return r.faultByID("number").Ratio }},
	{"5 s after one fault, of before: INSERT in a block, backend cut", true, 0.9, 0, func(r *report) roundSummary { return r.faultByID("block").Ratio }},
	{"told of a conflict: 64 clients on one row", false, zeroBound, 0, func(r *report) roundSummary { return r.conflictRate(0) }},
	{"told of a conflict: the same in two Sluices", false, 0, 0.02, func(r *report) roundSummary { return r.conflictRate(1) }},
}

// zeroBound is a goal's bound for shares of transactions that only a share of 0 reaches. It is less than the share of
// a single transaction in a run.
const zeroBound = 1e-9

// goalResult is the result of judging a goal: the goal, the measured figure, and whether the figure reaches the goal.
type goalResult struct {
	Goal    string       `json:"goal"`
	Figure  roundSummary `json:"figure"`
	Least   bool         `json:"at_least"` // else at most
	Bound   float64      `json:"bound,omitzero"`
	Aim     float64      `json:"aim,omitzero"`
	Verdict string       `json:"verdict"`
}

// judgeGoals compares the report's figures with the goals.
func (r *report) judgeGoals() {
	for _, g := range goals {
		f := g.of(r)
		r.Goals = append(r.Goals, goalResult{g.title, f, g.least, g.bound, g.aim, g.goalVerdict(f)})
	}
}

func (g *goal) goalVerdict(f roundSummary) string {
	switch {
	case f.Rounds == 0:
		return "not measured"
	case g.bound != 0 && !g.meetsLimit(f, g.bound):
		return "missed"
	case g.aim == 0:
		return "met"
	case g.meetsLimit(f, g.aim):
		return "met, and the aim"
	case g.bound == 0:
		return "aim missed"
	}
	return "met"
}

func (g *goal) meetsLimit(f roundSummary, limit float64) bool {
	if g.least {
		return f.Median >= limit
	}
	return f.Median <= limit
}
