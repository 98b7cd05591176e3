// Package account counts the bytes that Sluice stores for clients, and bounds them: for one client,
// and for all. It does not know what the bytes hold.
//
//	account.go  Process and Client, the accounts of all and of one
//	charge.go   Charge, the part of an account that one thing uses
package account

import "sync/atomic"

// Bound is a limit in bytes, and the configuration key that sets it.
type Bound struct {
	Key   string
	Limit int
}

// Keys of the account's own bounds.
const (
	ClientKey = "memory.bytes_per_client"
	TotalKey  = "memory.total_bytes"
)

// Kind is the purpose of a client's bytes. Its bytes of all kinds have one bound together.
type Kind uint8

const (
	// Own is for the client's own data: settings, names, portals, frames that are being read, data
	// of a COPY. It counts against the bound of all clients.
	Own Kind = iota
	// Texts is for the texts of its prepared statements. Clients share them, so the process counts
	// them elsewhere.
	Texts
	// Rows is for the rows of its cursors WITH HOLD, which have their own bound for all clients.
	Rows
	kinds
)

// Bounds are the bounds of a process. A limit of 0 leaves no room.
type Bounds struct {
	Client, Texts, Rows Bound // of each client
	Total, TotalRows    Bound // of all
}

// Process holds the accounts of all clients of a process. It is safe for concurrent use.
type Process struct {
	bounds      Bounds
	total, rows atomic.Int64
}

// NewProcess returns empty accounts of a process.
func NewProcess(b Bounds) *Process { return &Process{bounds: b} }

// Used returns the bytes of kind Own of all clients.
func (p *Process) Used() int64 { return p.total.Load() }

// UsedRows returns the bytes of all cursors WITH HOLD.
func (p *Process) UsedRows() int64 { return p.rows.Load() }

// shared returns the counter and the bound of a kind for all clients, nil for a kind without one.
func (p *Process) shared(k Kind) (*atomic.Int64, *Bound) {
	switch k {
	case Own:
		return &p.total, &p.bounds.Total
	case Rows:
		return &p.rows, &p.bounds.TotalRows
	}
	return nil, nil
}

// Client holds the accounts of one client. One goroutine owns it.
type Client struct {
	process *Process
	used    [kinds]int32 // small, because each session has one
}

// New returns the empty accounts of a new client.
func (p *Process) New() Client { return Client{process: p} }

// Used returns the client's bytes of a kind.
func (c *Client) Used(k Kind) int { return int(c.used[k]) }

// Full returns the bound that leaves no room for n more bytes of a kind, nil if there is room.
func (c *Client) Full(k Kind, n int) *Bound {
	if n <= 0 {
		return nil
	}
	b := &c.process.bounds
	switch {
	case k == Texts && c.Used(k)+n > b.Texts.Limit:
		return &b.Texts
	case k == Rows && c.Used(k)+n > b.Rows.Limit:
		return &b.Rows
	case c.Used(Own)+c.Used(Texts)+c.Used(Rows)+n > b.Client.Limit:
		return &b.Client
	}
	if all, bound := c.process.shared(k); all != nil && all.Load()+int64(n) > int64(bound.Limit) {
		return bound
	}
	return nil
}

// TryTake takes n bytes of a kind. If there is no room, it takes none and returns the bound.
func (c *Client) TryTake(k Kind, n int) *Bound {
	if full := c.Full(k, n); full != nil {
		return full
	}
	if all, bound := c.process.shared(k); all != nil && all.Add(int64(n)) > int64(bound.Limit) && n > 0 {
		all.Add(int64(-n)) // another client was faster
		return bound
	}
	c.used[k] += int32(n)
	return nil
}

// Add takes n bytes of a kind even without room, for data that exists already. A negative n returns
// bytes.
func (c *Client) Add(k Kind, n int) {
	if n == 0 {
		return
	}
	if all, _ := c.process.shared(k); all != nil {
		all.Add(int64(n))
	}
	c.used[k] += int32(n)
}

// Close returns all bytes of the client.
func (c *Client) Close() {
	for k := range kinds {
		c.Add(k, -c.Used(k))
	}
}

// RowsOf is the account of a client's cursors WITH HOLD, as a stored.Quota.
type RowsOf struct{ *Client }

// Take takes n bytes. Without room it takes none and returns false.
func (r RowsOf) Take(n int) bool { return r.TryTake(Rows, n) == nil }

// Give returns n bytes.
func (r RowsOf) Give(n int) { r.Add(Rows, -n) }
