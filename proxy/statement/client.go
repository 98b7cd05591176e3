package statement

import (
	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/rewrite"
)

// NameBytes is the memory that a client is charged for one statement's name, besides the name's bytes, rounded up.
const NameBytes = 256

// Client is one prepared statement under one of a client's names. The client's session owns it. Portals and the
// replay log refer to it.
type Client struct {
	Template *Template
	// Cost is the memory of the statement's text and of its longest description. Columns is the description's share.
	Cost, Columns int32
	// Epoch is the schema epoch in which the client prepared the statement.
	Epoch uint64
	// Names is the number of the latest schema snapshot for which the template's plan was checked (replanByNames).
	Names uint64
	// Described is the description of the statement that the client has received, or nil.
	Described *Description
	// Known is the description that was valid when the client prepared the statement, or nil if Sluice had none.
	Known *Description
	// Since is 1 + session.deliveries at the Parse, if Sluice answered the Parse from memory. Otherwise it is 0.
	Since uint64
	// Declares is the cursor that the statement declares, if Template is the cursor's query, and otherwise nil. OptsOut
	// means that a comment before the query turns replay off.
	Declares *rewrite.CursorStatement
	OptsOut  bool
	// Listed means that the statement has a name, and that the client's account is charged its cost.
	Listed bool
}

// HasOptedOut reports whether a comment in the statement, or before its cursor's query, opts out of replay.
func (c *Client) HasOptedOut() bool { return c.Template.OptsOut || c.OptsOut }

// RecordDescription records the description of the statement that the client received, and charges its memory to the
// client's account.
func (c *Client) RecordDescription(a *account.Client, d *Description) {
	c.Described = d
	if more := d.MemoryBytes() - int(c.Columns); more > 0 {
		c.Columns, c.Cost = c.Columns+int32(more), c.Cost+int32(more)
		if c.Listed {
			a.Add(account.Texts, more)
		}
	}
}

// ClientSet holds a client's prepared statements by name. The zero value holds none. Each method that stores or removes
// a named statement charges or credits the client's account.
type ClientSet struct {
	named   map[string]*Client
	unnamed *Client
	slot    Client // the struct that unnamed usually points to
}

// Find returns the client's statement with the name, or nil. The empty name is that of the unnamed statement.
func (c *ClientSet) Find(name []byte) *Client {
	if len(name) == 0 {
		return c.unnamed
	}
	return c.named[string(name)]
}

// Named returns the named statements. The caller must not change the map, and may give it to Replace later.
func (c *ClientSet) Named() map[string]*Client { return c.named }

// Set stores a prepared statement under the client's name. nil removes the name.
func (c *ClientSet) Set(a *account.Client, name string, st *Client) {
	if name == "" {
		c.unnamed = st
		return
	}
	if prev := c.named[name]; prev != nil {
		c.list(a, name, prev, false)
		delete(c.named, name)
	}
	if st == nil {
		return
	}
	if c.named == nil {
		c.named = map[string]*Client{}
	}
	c.named[name] = st
	c.list(a, name, st, true)
}

// SetUnnamed stores st as the unnamed statement, in a struct that is used again. See UsesSlot.
func (c *ClientSet) SetUnnamed(st Client) {
	c.slot = st
	c.unnamed = &c.slot
}

// RemoveUnnamed removes the unnamed statement.
func (c *ClientSet) RemoveUnnamed() { c.unnamed = nil }

// HasUnusedSlot reports whether the struct of SetUnnamed holds a statement that is no longer the unnamed one.
func (c *ClientSet) HasUnusedSlot() bool { return c.slot.Template != nil && c.unnamed != &c.slot }

// UsesSlot reports whether st is in the struct that the next SetUnnamed overwrites.
func (c *ClientSet) UsesSlot(st *Client) bool { return st == &c.slot }

// ClearSlot clears the struct of SetUnnamed, so that it refers to no template.
func (c *ClientSet) ClearSlot() { c.slot = Client{} }

// list charges the client's account for a statement that gets a name, or credits the account for a statement that loses
// its name.
func (c *ClientSet) list(a *account.Client, name string, st *Client, listed bool) {
	sign := -1
	if st.Listed = listed; listed {
		sign = 1
	}
	a.Add(account.Texts, sign*int(st.Cost))
	a.Add(account.Own, sign*(NameBytes+len(name)))
}

// Replace replaces all named statements by those of named. Replace does not change the old map, which a caller of Named
// may have.
func (c *ClientSet) Replace(a *account.Client, named map[string]*Client) {
	for name, st := range c.named {
		c.list(a, name, st, false)
	}
	c.named = named
	for name, st := range named {
		c.list(a, name, st, true)
	}
}
