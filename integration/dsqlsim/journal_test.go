package dsqlsim

import (
	"errors"
	"testing"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// What a session leaves when it ends behind requests of which only some were answered:
// "unknown" is said only of what may have been committed.
func TestJournalOfWhatIsLeft(t *testing.T) {
	t.Parallel()
	none := func() int { return 0 }
	begin, insert, commit, rollback := dialect.Begin, dialect.DML, dialect.Commit, dialect.Rollback
	for name, test := range map[string]struct {
		asked    []dialect.Kind
		answered int // of them
		failed   bool
		want     string
	}{
		"a block":                             {[]dialect.Kind{begin, insert}, 2, false, wasLost},
		"its COMMIT":                          {[]dialect.Kind{begin, insert, commit}, 2, false, wasUnknown},
		"its COMMIT, nothing answered":        {[]dialect.Kind{begin, insert, commit}, 0, false, wasUnknown},
		"its ROLLBACK":                        {[]dialect.Kind{begin, insert, rollback}, 2, false, wasLost},
		"its ROLLBACK, nothing answered":      {[]dialect.Kind{begin, insert, rollback}, 0, false, wasLost},
		"a failed block":                      {[]dialect.Kind{begin, insert}, 2, true, wasLost},
		"the COMMIT of a failed block":        {[]dialect.Kind{begin, insert, commit}, 2, true, wasLost},
		"the ROLLBACK of a failed block":      {[]dialect.Kind{begin, insert, rollback}, 2, true, wasLost},
		"COMMIT, ROLLBACK":                    {[]dialect.Kind{begin, insert, commit, rollback}, 2, false, wasUnknown},
		"ROLLBACK, COMMIT":                    {[]dialect.Kind{begin, insert, rollback, commit}, 2, false, wasLost},
		"ROLLBACK, and the COMMIT of another": {[]dialect.Kind{begin, insert, rollback, begin, insert, commit}, 2, false, wasUnknown},
	} {
		l := newEventLedger(100)
		j := &sessionJournal{ledger: l, metrics: newMetrics(none, none, none)}
		for _, kind := range test.asked {
			j.requested.recordRequest(kind)
		}
		for i, kind := range test.asked[:test.answered] {
			st := &dialect.Statement{Kind: kind}
			if test.failed && i == test.answered-1 {
				j.recordFailure(st, "40001")
			} else {
				j.recordSuccess(st, "")
			}
		}
		j.recordClose(errors.New("cut"), false, false)
		var got []string
		for _, e := range l.eventsAfter(0) {
			if e.Kind == "transaction" {
				got = append(got, e.Outcome)
			}
		}
		if len(got) != 1 || got[0] != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}
