// Package account counts the bytes that Sluice stores for clients, and bounds them, for one client and for all clients.
// The package does not know the content of the bytes.
//
//	account.go  Process and Client, the accounts of all clients and of one
//	charge.go   Charge, the part of an account that one purpose uses
package account

import "sync/atomic"

// Bound is a limit in bytes, with the configuration key that sets the limit.
type Bound struct {
	Key   string
	Limit int
}

// These keys of the configuration set the bounds that hold for all kinds of bytes.
const (
	ClientKey = "memory.bytes_per_client"
	TotalKey  = "memory.total_bytes"
)

// Kind says for what Sluice stores bytes of a client. The bytes of all kinds together have one bound for each client.
type Kind uint8

const (
	// Own is the kind of a client's own data: settings, names, portals, frames that are being read, data of a COPY. These
	// bytes count against the bound of all clients.
	Own Kind = iota
	// Texts is the kind of the texts of a client's prepared statements. Clients share the texts, so the process counts
	// them elsewhere.
	Texts
	// Rows is the kind of the rows of a client's cursors WITH HOLD. The bytes of these rows have a bound of their own for
	// all clients.
	Rows
	kinds
)

// Bounds are the bounds of a process on the bytes that it stores for clients. A limit of 0 leaves no room.
type Bounds struct {
	Client, Texts, Rows Bound // of each client
	Total, TotalRows    Bound // of all
}

// Process holds the memory accounts of all clients of a process. Process is safe for concurrent use.
type Process struct {
	bounds      Bounds
	total, rows atomic.Int64
}

// NewProcess returns the accounts of a process, in which no bytes are taken.
func NewProcess(b Bounds) *Process { return &Process{bounds: b} }

// Used returns the number of bytes of kind Own that are charged to all clients together.
func (p *Process) Used() int64 { return p.total.Load() }

// UsedRows returns the number of bytes of the rows of all clients' cursors WITH HOLD.
func (p *Process) UsedRows() int64 { return p.rows.Load() }

// sharedCounter returns the counter and the bound that a kind has for all clients together. sharedCounter returns nil
// for a kind that is bounded for each client only.
func (p *Process) sharedCounter(k Kind) (*atomic.Int64, *Bound) {
	switch k {
	case Own:
		return &p.total, &p.bounds.Total
	case Rows:
		return &p.rows, &p.bounds.TotalRows
	}
	return nil, nil
}

// Client holds the memory accounts of one client. One goroutine owns a Client.
type Client struct {
	process *Process
	used    [kinds]int32 // small, because each session has one
}

// NewClient returns the accounts of a new client, in which no bytes are taken.
func (p *Process) NewClient() Client { return Client{process: p} }

// Used returns the number of bytes of a kind that are charged to the client.
func (c *Client) Used(k Kind) int { return int(c.used[k]) }

// ExceededBound returns the bound that leaves no room for n more bytes of a kind, or nil if there is room.
func (c *Client) ExceededBound(k Kind, n int) *Bound {
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
	if all, bound := c.process.sharedCounter(k); all != nil && all.Load()+int64(n) > int64(bound.Limit) {
		return bound
	}
	return nil
}

// TryTake charges n bytes of a kind to the client. If there is no room, it charges none and returns the full bound.
func (c *Client) TryTake(k Kind, n int) *Bound {
	if full := c.ExceededBound(k, n); full != nil {
		return full
	}
	if all, bound := c.process.sharedCounter(k); all != nil && all.Add(int64(n)) > int64(bound.Limit) && n > 0 {
		all.Add(int64(-n)) // another client was faster
		return bound
	}
	c.used[k] += int32(n)
	return nil
}

// Add charges n bytes of a kind to the client even if there is no room, for existing data. n < 0 gives bytes back.
func (c *Client) Add(k Kind, n int) {
	if n == 0 {
		return
	}
	if all, _ := c.process.sharedCounter(k); all != nil {
		all.Add(int64(n))
	}
	c.used[k] += int32(n)
}

// Close gives back all bytes that are charged to the client.
func (c *Client) Close() {
	for k := range kinds {
		c.Add(k, -c.Used(k))
	}
}

// RowsAccount is the account of the rows of a client's cursors WITH HOLD, as a stored.Quota.
type RowsAccount struct{ *Client }

// Take charges n bytes for rows of the client's cursors. If there is no room, Take charges none and returns false.
func (r RowsAccount) Take(n int) bool { return r.TryTake(Rows, n) == nil }

// Give gives back n bytes that were charged for rows of the client's cursors.
func (r RowsAccount) Give(n int) { r.Add(Rows, -n) }
