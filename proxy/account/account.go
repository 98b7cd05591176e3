// Package account counts the bytes that clients have Sluice remember, and bounds them: of one client,
// and of all. Nothing here knows what they are of.
//
//	account.go  Process and Client, the accounts of all and of one
//	charge.go   Charge, what one thing has of an account
package account

import "sync/atomic"

// Bound is a limit in bytes, and the configuration key that sets it.
type Bound struct {
	Key   string
	Limit int
}

// The keys of the bounds that are an account's own.
const (
	ClientKey = "memory.bytes_per_client"
	TotalKey  = "memory.total_bytes"
)

// Kind is what the bytes of a client are of. Its accounts of all kinds are bounded together.
type Kind uint8

const (
	// Own is what the client alone has: settings, names, portals, frames that are being read, data of a
	// COPY. It counts against the bound of all clients.
	Own Kind = iota
	// Texts are those of its prepared statements, which clients share: what they take of the process is
	// counted where they are shared.
	Texts
	// Rows are those of its cursors WITH HOLD, which have a bound for all clients of their own.
	Rows
	kinds
)

// Bounds are those of a process. A limit of 0 leaves room for nothing.
type Bounds struct {
	Client, Texts, Rows Bound // of each client
	Total, TotalRows    Bound // of all
}

// Process are the accounts of all clients of a process together. It is safe for concurrent use.
type Process struct {
	bounds      Bounds
	total, rows atomic.Int64
}

// NewProcess returns the accounts of a process of which nothing is taken.
func NewProcess(b Bounds) *Process { return &Process{bounds: b} }

// Used is how many bytes all clients have taken of their own.
func (p *Process) Used() int64 { return p.total.Load() }

// UsedRows is how many bytes the rows of all cursors WITH HOLD have.
func (p *Process) UsedRows() int64 { return p.rows.Load() }

// shared is the count of all clients that a kind has beside the client's, and its bound; nil for none.
func (p *Process) shared(k Kind) (*atomic.Int64, *Bound) {
	switch k {
	case Own:
		return &p.total, &p.bounds.Total
	case Rows:
		return &p.rows, &p.bounds.TotalRows
	}
	return nil, nil
}

// Client are the accounts of one client. One goroutine owns it.
type Client struct {
	process *Process
	used    [kinds]int32 // each session has one
}

// New returns the accounts of a client that has nothing yet.
func (p *Process) New() Client { return Client{process: p} }

// Used is how many bytes of a kind the client has.
func (c *Client) Used(k Kind) int { return int(c.used[k]) }

// Full returns the bound that leaves no room for n bytes more of a kind; nil where there is room.
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

// TryTake takes n bytes of a kind, or none and returns the bound that leaves no room for them.
func (c *Client) TryTake(k Kind, n int) *Bound {
	if full := c.Full(k, n); full != nil {
		return full
	}
	if all, bound := c.process.shared(k); all != nil && all.Add(int64(n)) > int64(bound.Limit) && n > 0 {
		all.Add(int64(-n)) // others were faster
		return bound
	}
	c.used[k] += int32(n)
	return nil
}

// Add takes n bytes of a kind whether there is room or not: for what is there already. n below zero
// gives bytes back.
func (c *Client) Add(k Kind, n int) {
	if n == 0 {
		return
	}
	if all, _ := c.process.shared(k); all != nil {
		all.Add(int64(n))
	}
	c.used[k] += int32(n)
}

// Close gives back what the client still has.
func (c *Client) Close() {
	for k := range kinds {
		c.Add(k, -c.Used(k))
	}
}

// RowsOf are the bytes of a client's cursors WITH HOLD, as a bound that somebody else asks
// (stored.Quota).
type RowsOf struct{ *Client }

// Take takes n bytes, or none and reports false.
func (r RowsOf) Take(n int) bool { return r.TryTake(Rows, n) == nil }

// Give gives n bytes back.
func (r RowsOf) Give(n int) { r.Add(Rows, -n) }
