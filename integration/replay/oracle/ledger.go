package oracle

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// Event is an event of dsqlsim's ledger, as its admin interface returns it.
type Event struct {
	Seq         uint64
	Session     uint64
	Kind        string // statement, transaction, fault, close, ...
	Transaction uint64 // its number in its session
	Verb        string
	SQL         string
	Outcome     string
	Detail      string
}

// TagComment returns an SQL comment that marks statements of a transaction, for CheckLedger.
func TagComment(txn int) string { return fmt.Sprintf("/* T%d */ ", txn) }

var tagPattern = regexp.MustCompile(`/\* T(\d+) \*/`)

// txnAttempt is one execution of a tagged transaction.
type txnAttempt struct {
	session, transaction uint64
	from, to             uint64 // events: its first tagged statement, its end
	outcome              string // "" while it has not ended
	cut                  bool   // its connection was cut when COMMIT had been sent
}

func (a *txnAttempt) String() string {
	s := fmt.Sprintf("events %d to %d, session %d, %s", a.from, a.to, a.session, cmp.Or(a.outcome, "open"))
	if a.cut {
		s += ", cut at COMMIT"
	}
	return s
}

// CheckLedger compares the outcomes that clients know with dsqlsim's ledger, for writing transactions with tagged
// statements. At most one attempt of a transaction may have committed: exactly one after an acknowledgement, none
// after an error. No attempt may follow one of unknown outcome. Events must be in order and complete.
func CheckLedger(txns []*Txn, events []Event) (found []Violation) {
	byID := make(map[int]*Txn, len(txns))
	for _, t := range txns {
		byID[t.ID] = t
	}
	attempts := attemptsOf(events)
	for _, t := range txns {
		tries := attempts[t.ID]
		if len(tries) == 0 || !t.requestsChange() {
			continue // a read may be run again whatever became of it
		}
		violate := func(v BrokenRule, format string, args ...any) {
			found = append(found, Violation{v, fmt.Sprintf(format, args...) + fmt.Sprintf(": %v", tries), []*Txn{t}})
		}
		committed := 0
		for i, a := range tries {
			if a.outcome == "committed" {
				committed++
			}
			later := slices.ContainsFunc(tries[i+1:], func(b *txnAttempt) bool { return !b.wasNestedIn(a) })
			if later && (a.cut || a.outcome == "committed" || a.outcome == "unknown") {
				violate(SentAfter, "T%d, attempt %d of %d", t.ID, i+1, len(tries))
			}
		}
		switch {
		case committed > 1:
			violate(SentTwice, "T%d", t.ID)
		case committed == 0 && t.Outcome == Committed && tries[len(tries)-1].outcome != "unknown",
			committed == 1 && t.Outcome == Aborted:
			violate(Unlogged, "T%d was told %v", t.ID, t.Outcome)
		}
	}
	return found
}

// wasNestedIn reports whether an attempt began, and was rolled back, while an attempt of another session was open.
// Attempts of this kind are the discarded parts of a transaction, for which no COMMIT is sent.
func (a *txnAttempt) wasNestedIn(other *txnAttempt) bool {
	return a.outcome == "rolled back" && a.session != other.session && a.from > other.from && a.to < other.to
}

func attemptsOf(events []Event) map[int][]*txnAttempt {
	all := make(map[int][]*txnAttempt)
	open := make(map[uint64][]*txnAttempt) // by session
	// For each session whose connection was cut, cut has the number of the cut's event, and cutAtCommit whether COMMIT
	// had been sent. A statement under way at the cut is in the ledger only after PostgreSQL has answered it, which
	// follows the cut.
	cut, cutAtCommit := make(map[uint64]uint64), make(map[uint64]bool)
	for _, e := range events {
		switch e.Kind {
		case "statement":
			m := tagPattern.FindStringSubmatch(e.SQL)
			if m == nil {
				continue
			}
			id, _ := strconv.Atoi(m[1])
			same := func(a *txnAttempt) bool { return a.session == e.Session && a.transaction == e.Transaction }
			if !slices.ContainsFunc(all[id], same) {
				a := &txnAttempt{session: e.Session, transaction: e.Transaction, from: e.Seq, cut: cutAtCommit[e.Session]}
				if at, yes := cut[e.Session]; yes {
					a.from = at
				}
				all[id] = append(all[id], a)
				open[e.Session] = append(open[e.Session], a)
			}
		case "fault":
			if e.Outcome != "cut" {
				continue
			}
			cut[e.Session] = e.Seq
			if e.Detail == "commit" || e.Detail == "committing" || e.Detail == "committed" {
				cutAtCommit[e.Session] = true
				for _, a := range open[e.Session] {
					a.cut = true
				}
			}
		case "transaction":
			for _, a := range open[e.Session] {
				if a.transaction == e.Transaction {
					a.outcome, a.to = e.Outcome, e.Seq
				}
			}
			open[e.Session] = slices.DeleteFunc(open[e.Session], func(a *txnAttempt) bool { return a.outcome != "" })
		}
	}
	for _, tries := range all {
		slices.SortStableFunc(tries, func(a, b *txnAttempt) int { return cmp.Compare(a.from, b.from) })
	}
	return all
}
