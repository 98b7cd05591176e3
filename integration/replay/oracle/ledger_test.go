package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// events makes a ledger out of lines: "session kind what", where a statement's
// what is its transaction and its tag, a fault's is where it cut, a transaction's is
// its number and outcome.
func events(t *testing.T, text string) (all []Event) {
	t.Helper()
	for line := range strings.Lines(text) {
		e := Event{Seq: uint64(len(all) + 1)}
		var what string
		var tag int
		if _, err := fmt.Sscan(line, &e.Session, &e.Kind); err != nil {
			continue
		}
		what = strings.TrimSpace(strings.SplitN(strings.TrimSpace(line), " ", 3)[2])
		switch e.Kind {
		case "statement":
			fmt.Sscan(what, &e.Transaction, &tag)
			e.SQL = "UPDATE " + TagComment(tag) + "register SET ..."
		case "fault":
			e.Outcome, e.Detail = "cut", what
		case "transaction":
			fmt.Sscan(what, &e.Transaction, &e.Outcome)
		}
		all = append(all, e)
	}
	return all
}

func TestCheckLedger(t *testing.T) {
	t.Parallel()
	writes := func(o Outcome) *Txn { return &Txn{ID: 7, Outcome: o, Ops: []Op{{Kind: Append}}} }
	for _, test := range []struct {
		name   string
		txn    *Txn
		ledger string
		want   []BrokenRule
	}{
		{"once", writes(Committed), "1 statement 1 7\n1 transaction 1 committed", nil},
		{"of another", writes(Committed), "1 statement 1 8\n1 transaction 1 aborted", nil},
		{"after a conflict", writes(Committed), "1 statement 1 7\n1 transaction 1 lost\n1 statement 2 7\n1 transaction 2 committed", nil},
		{"after a loss", writes(Committed), "1 statement 1 7\n1 fault running\n1 transaction 1 lost\n2 statement 1 7\n2 transaction 1 committed", nil},
		{"after a loss that is recorded late", writes(Committed), "1 fault running\n2 statement 1 7\n2 transaction 1 committed\n1 statement 1 7\n1 transaction 1 lost", nil},
		{"denied", writes(Aborted), "1 statement 1 7\n1 transaction 1 lost", nil},
		{"unknown, and committed", writes(Unknown), "1 statement 1 7\n1 fault committed\n1 transaction 1 committed", nil},
		{"unknown, and not", writes(Unknown), "1 statement 1 7\n1 fault commit\n1 transaction 1 lost", nil},
		{"acknowledged, and nobody knows", writes(Committed), "1 statement 1 7\n1 transaction 1 unknown", nil},
		{"a read, twice", &Txn{ID: 7, Outcome: Committed, Ops: []Op{{Kind: Read}}},
			"1 statement 1 7\n1 transaction 1 committed\n2 statement 1 7\n2 transaction 1 committed", nil},

		{"twice", writes(Committed), "1 statement 1 7\n1 transaction 1 committed\n2 statement 1 7\n2 transaction 1 committed", []BrokenRule{SentAfter, SentTwice}},
		{"tried after it committed", writes(Unknown), "1 statement 1 7\n1 transaction 1 committed\n2 statement 1 7\n2 transaction 1 lost", []BrokenRule{SentAfter}},
		{"sent again behind COMMIT", writes(Committed), "1 statement 1 7\n1 fault commit\n1 transaction 1 lost\n2 statement 1 7\n2 transaction 1 committed", []BrokenRule{SentAfter}},
		{"the same, recorded late", writes(Committed), "1 fault committing\n1 statement 1 7\n1 transaction 1 lost\n2 statement 1 7\n2 transaction 1 committed", []BrokenRule{SentAfter}},
		{"sent again when nobody knew", writes(Committed), "1 statement 1 7\n1 transaction 1 unknown\n2 statement 1 7\n2 transaction 1 committed", []BrokenRule{SentAfter}},
		{"denied, and committed", writes(Aborted), "1 statement 1 7\n1 transaction 1 committed", []BrokenRule{Unlogged}},
		{"acknowledged, and not committed", writes(Committed), "1 statement 1 7\n1 transaction 1 lost", []BrokenRule{Unlogged}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []BrokenRule
			for _, v := range CheckLedger([]*Txn{test.txn}, events(t, test.ledger)) {
				got = append(got, v.Rule)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}
