package proxy

import (
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// What a client has Sluice remember is charged to the accounts of its session (package account), which
// hang under those of the process. What is about to be remembered is refused where there is no room; the
// session goes on. What the server has done already is charged in any case.
//
//	settings    in force, staged, and those that savepoints may bring back (settings.Client.Bytes)
//	names       of prepared statements; their texts and descriptions are charged to the texts
//	portals     names, values, formats, and long texts of their statements (portal.go)
//	frames      that are read whole, and Closes that are put off; until the turn has ended
//	feature     bytes that a feature holds for its statement (feature.Client.Hold); until the turn has ended
//	locks       advisory locks
//
// The logs of transactions and answers that are held back have bounds of their own (package retry).

// accounts are those of one session, and what things that stay between two transactions have of them.
// A session embeds it. Its texts are charged without a Charge: nothing else is of that kind.
type accounts struct {
	account           account.Client
	settled, nameCost account.Charge
}

// charges are what those things have that a session has only while it works.
type charges struct{ ports, frame, putOff, feature account.Charge }

// Configuration keys of bounds that are older than package account.
const (
	textsKey     = "prepared.bytes_per_client"
	rowsKey      = "cursor.stored_bytes"
	totalRowsKey = "cursor.stored_total_bytes"
)

const (
	// savepointBytes is what is remembered of a savepoint besides settings, rounded up.
	savepointBytes = 1 << 10
	// nameBytes is what a name takes besides its bytes, rounded up.
	nameBytes = 256
	// lockBytes is what an advisory lock takes, rounded up.
	lockBytes = 1 << 10
	// shortFrame is how long a frame may be that is charged to nobody: it fits the buffer that each
	// client has.
	shortFrame = 64 << 10
)

// newAccounts are the accounts of a process.
func newAccounts(cfg Config) *account.Process {
	total := cfg.MemoryTotalBytes
	if limit := int(cfg.MemoryLimit / memoryShare); limit > 0 {
		total = min(total, limit)
	}
	return account.NewProcess(account.Bounds{
		Client: account.Bound{Key: account.ClientKey, Limit: cfg.MemoryBytesPerClient},
		Texts:  account.Bound{Key: textsKey, Limit: cfg.PreparedBytesPerClient},
		Rows:   account.Bound{Key: rowsKey, Limit: cfg.StoredBytes},
		Total:  account.Bound{Key: account.TotalKey, Limit: total}, TotalRows: account.Bound{Key: totalRowsKey, Limit: cfg.StoredTotalBytes},
	})
}

// memoryShare is the part of GOMEMLIMIT, one in so many, that memory.total_bytes may have at most.
const memoryShare = 4

// mayRemember is the error of a text whose settings or savepoints there is no room for; nil for any
// other. A failed block refuses it by itself.
func (s *session) mayRemember(plan *rewrite.Plan) error {
	if plan.Kind < rewrite.Setting || s.status() == 'E' {
		return nil
	}
	n := 0
	for i := range plan.Statements {
		st := &plan.Statements[i]
		if st.Tx.Verb == rewrite.Savepoint {
			n += savepointBytes
		}
		for j := range st.Changes {
			n += s.settings.Needs(&st.Changes[j], s.inBlock())
		}
	}
	if n <= 0 {
		return nil
	}
	if !s.settings.Takes(plan.Statements) {
		return errTooManySettings
	}
	if full := s.account.Full(account.Own, s.rememberedNow()-s.settled.Bytes()+n); full != nil {
		return errMemory(full)
	}
	return nil
}

// owedSettings returns what the settings of a plan weigh in the owed queue: the server answers after 128 of
// them, or 2 MiB, so that a pipeline does not pass the bounds of mayRemember by much.
func owedSettings(plan *rewrite.Plan) (n int) {
	if plan.Kind != rewrite.Setting {
		return 0
	}
	for i := range plan.Statements {
		for j := range plan.Statements[i].Changes {
			n += max(mostOwedBytes/128, settings.ChangeBytes(&plan.Statements[i].Changes[j]))
		}
	}
	return n
}

var errTooManySettings = &wire.Error{Code: "53200", Message: fmt.Sprintf("too many settings: a session has at most %d", settings.Most),
	Hint: "RESET what is not used any more, or keep such values in a table."}

// rememberedNow is what settings and savepoints take now.
func (s *session) rememberedNow() int { return s.settings.Bytes() + len(s.tx.marks)*savepointBytes }

// chargeTurn charges what a turn has left, at its end.
func (s *session) chargeTurn() {
	s.settled.Set(&s.account, s.rememberedNow())
	s.charge.ports.Set(&s.account, s.openPortals.bytes)
	s.chargeLocks()
	s.charge.frame.Set(&s.account, 0)
	s.charge.putOff.Set(&s.account, 0)
	s.charge.feature.Set(&s.account, 0)
}

// chargeLocks charges the advisory locks that the session has.
func (s *session) chargeLocks() {
	if s.advisory != nil {
		s.advisory.charge.Set(&s.account, len(s.advisory.times)*lockBytes)
	}
}

// bareSettings has a backend that is given back remember no long values of the client that it served.
func (s *session) bareSettings() {
	if of := s.b.applied; of != nil && of.Bytes() > settings.MostBare {
		s.b.applied = s.srv.interned.Share(of.Bared())
	}
}

// mayHold is the error of a frame of total bytes that is to be read whole, where there is no room for it.
// The frames of a turn are read into one buffer.
func (s *session) mayHold(total int) *wire.Error {
	if total <= shortFrame || total <= s.charge.frame.Bytes() {
		return nil
	}
	if full := s.charge.frame.TrySet(&s.account, total); full != nil {
		return errMemory(full)
	}
	return nil
}

// mayPutOff is the error of a frame of total bytes that is to be read whole and done at the Sync, where
// there is no room for it.
func (s *session) mayPutOff(total int) *wire.Error {
	if full := s.charge.putOff.TrySet(&s.account, s.charge.putOff.Bytes()+total); full != nil {
		return errMemory(full)
	}
	return nil
}

// errMemory refuses what an account has no room for.
func errMemory(full *account.Bound) *wire.Error {
	e := &wire.Error{Code: "53200", Message: "out of memory for what this session has Sluice remember",
		Detail: fmt.Sprintf("Settings, savepoints, names and values of portals, prepared statements, rows of cursors WITH HOLD and data that are being read are bounded by %s, %d.", full.Key, full.Limit),
		Hint:   "Send less at a time, or give settings, statements and cursors up that are not used any more."}
	if full.Key == account.TotalKey {
		e.Message = "out of memory for what all sessions have Sluice remember"
		e.Hint = "Retry, or raise " + account.TotalKey + ", and GOMEMLIMIT, of which it has a quarter at most."
	}
	return e
}
