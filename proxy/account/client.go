package account

// Configuration keys of the bounds that are an account's own.
const (
	ClientKey = "memory.bytes_per_client"
	TotalKey  = "memory.total_bytes"
)

// Limits bound the accounts of each client, in bytes.
type Limits struct {
	Client int // all that one client has remembered
	Texts  int // the texts of its prepared statements
	Rows   int // the rows of its cursors WITH HOLD
}

// Process are the accounts of all clients of a process together.
type Process struct {
	limits Limits
	total  *Account // what belongs to one client each
	rows   *Account // the rows of cursors WITH HOLD
}

// NewProcess returns the accounts of a process. total and rows are bytes; rows may be 0, which is none.
func NewProcess(limits Limits, total, rows int, rowsKey string) *Process {
	return &Process{limits: limits, total: New(TotalKey, total), rows: New(rowsKey, max(rows, 1))}
}

// Used is how many bytes clients have of the account of all, the rows of cursors aside.
func (p *Process) Used() int64 { return p.total.Used() }

// Rows is how many bytes the rows of cursors WITH HOLD have.
func (p *Process) Rows() int64 { return p.rows.Used() }

// Client are the accounts of one client. All is what the others take together.
type Client struct {
	All Account
	// Own is what the client alone has: settings, names, portals, frames that are being read, data of
	// a COPY. The process's account bears it too.
	Own Account
	// Texts are those of its prepared statements, which clients share: what they take of the process
	// is counted where they are shared.
	Texts Account
	// Rows are those of its cursors WITH HOLD.
	Rows Account
}

// Open begins the accounts of a client. They must not be copied from then on.
func (c *Client) Open(p *Process, textsKey, rowsKey string) {
	c.All.open(ClientKey, p.limits.Client)
	c.Own.open("", 0, &c.All, p.total)
	c.Texts.open(textsKey, p.limits.Texts, &c.All)
	c.Rows.open(rowsKey, max(p.limits.Rows, 1), &c.All, p.rows)
}

// Close gives back what the client still has.
func (c *Client) Close() {
	for _, a := range []*Account{&c.Own, &c.Texts, &c.Rows} {
		a.Add(-int(a.Used()))
	}
}
