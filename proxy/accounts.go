package proxy

import (
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A session's accounts bound the memory of its client's state (package account), within the accounts of the process.
// If an account has no room for new state, Sluice refuses the state before storing it, and the session continues.
// State that the server has already accepted is charged in any case.
//
//	settings    in force, staged (not yet committed), and those that savepoints may restore (settings.Client.Bytes)
//	names       of prepared statements; their texts and descriptions are charged as account.Texts, not as state
//	portals     names, values, formats, and long texts of their statements (portal.go)
//	frames      that Sluice reads whole, and Closes that wait for the Sync; until the turn has ended
//	feature     bytes that a feature holds for its statement (feature.Client.ChargeMemory); until the turn has ended
//	locks       advisory locks
//
// Package retry bounds the logs of transactions and the answers that are withheld from the client.

// memoryAccounts has the memory account of one session, and the part of it that settings and savepoints use between
// transactions. Package statement charges the texts of statements directly to the account, as account.Texts.
type memoryAccounts struct {
	account        account.Client
	settingsCharge account.Charge
}

// memoryCharges has the parts of a session's memory account that the session uses only while it is active.
type memoryCharges struct{ portals, frame, deferredFrames, feature account.Charge }

// These are configuration keys that bound the memory of statement texts and of stored cursors' rows.
const (
	textsKey     = "prepared.bytes_per_client"
	rowsKey      = "cursor.stored_bytes"
	totalRowsKey = "cursor.stored_total_bytes"
)

const (
	// savepointBytes is how many bytes a session is charged for one savepoint without its settings, rounded up.
	savepointBytes = 1 << 10
	// lockBytes is how many bytes a session is charged for one advisory lock, rounded up.
	lockBytes = 1 << 10
	// shortFrame is the greatest length, in bytes, of a frame that is not charged, because it fits each client's buffer.
	shortFrame = 64 << 10
)

// newProcessAccount returns the memory accounts that all sessions of this process share.
func newProcessAccount(cfg Config) *account.Process {
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

// memoryShare is the divisor of GOMEMLIMIT that bounds memory.total_bytes to at most a quarter of GOMEMLIMIT.
const memoryShare = 4

// checkSettingsMemory returns an error if the session's memory has no room for the settings or savepoints of a query.
// In a failed block it returns nil, since the failed block itself refuses the query.
func (s *session) checkSettingsMemory(plan *rewrite.Plan) error {
	if plan.Kind < rewrite.Setting || s.txStatus() == 'E' {
		return nil
	}
	n := 0
	for i := range plan.Statements {
		st := &plan.Statements[i]
		if st.Tx.Verb == rewrite.Savepoint {
			n += savepointBytes
		}
		for j := range st.Changes {
			n += s.settings.ExtraBytes(&st.Changes[j], s.inBlock())
		}
	}
	if n <= 0 {
		return nil
	}
	if !s.settings.HasRoomFor(plan.Statements) {
		return errTooManySettings
	}
	if full := s.memory.account.ExceededBound(account.Own, s.settingsMemory()-s.memory.settingsCharge.Bytes()+n); full != nil {
		return errOutOfMemory(full)
	}
	return nil
}

// pendingSettingsWeight returns the bytes that a plan's SETs count towards mostOwedBytes, the bound of pending
// replies. After 128 settings or 2 MiB the session awaits the server's answer, so pipelines hardly exceed the bounds.
func pendingSettingsWeight(plan *rewrite.Plan) (n int) {
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

var errTooManySettings = &wire.Error{Code: "53200", Message: fmt.Sprintf("too many settings: a session has at most %d", settings.MaxSettings),
	Hint: "RESET what is not used any more, or keep such values in a table."}

// settingsMemory returns the memory of the session's settings and savepoints, in bytes.
func (s *session) settingsMemory() int { return s.settings.Bytes() + len(s.tx.marks)*savepointBytes }

// updateMemoryCharges sets the session's memory charges at the end of a turn.
func (s *session) updateMemoryCharges() {
	s.memory.settingsCharge.Set(&s.memory.account, s.settingsMemory())
	s.charge.portals.Set(&s.memory.account, s.portals.bytes)
	s.srv.observers.turnEnd.notify(s)
	s.charge.frame.Set(&s.memory.account, 0)
	s.charge.deferredFrames.Set(&s.memory.account, 0)
	s.charge.feature.Set(&s.memory.account, 0)
}

// chargeLockMemory charges the session's account for its advisory locks.
func chargeLockMemory(s *session) {
	if s.advisory != nil {
		s.advisory.charge.Set(&s.memory.account, s.advisory.Count()*lockBytes)
	}
}

// reserveFrameMemory charges the session for reading a whole frame of total bytes, or returns an error if its memory
// has no room. A turn reads its frames into one buffer, so only the longest frame is charged.
func (s *session) reserveFrameMemory(total int) *wire.Error {
	if total <= shortFrame || total <= s.charge.frame.Bytes() {
		return nil
	}
	if full := s.charge.frame.TrySet(&s.memory.account, total); full != nil {
		return errOutOfMemory(full)
	}
	return nil
}

// reserveDeferredMemory charges the session for a frame of total bytes that waits for the Sync, or returns an error.
func (s *session) reserveDeferredMemory(total int) *wire.Error {
	if full := s.charge.deferredFrames.TrySet(&s.memory.account, s.charge.deferredFrames.Bytes()+total); full != nil {
		return errOutOfMemory(full)
	}
	return nil
}

// errOutOfMemory returns the error for state, such as a setting or a portal, for which the full account has no room.
func errOutOfMemory(full *account.Bound) *wire.Error {
	e := &wire.Error{Code: "53200", Message: "out of memory for what this session has Sluice remember",
		Detail: fmt.Sprintf("Settings, savepoints, names and values of portals, prepared statements, rows of cursors WITH HOLD and data that are being read are bounded by %s, %d.", full.Key, full.Limit),
		Hint:   "Send less at a time, or give settings, statements and cursors up that are not used any more."}
	if full.Key == account.TotalKey {
		e.Message = "out of memory for what all sessions have Sluice remember"
		e.Hint = "Retry, or raise " + account.TotalKey + ", and GOMEMLIMIT, of which it has a quarter at most."
	}
	return e
}
