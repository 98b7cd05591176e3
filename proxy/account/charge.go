package account

// Charge is the number of bytes of a client's own (Own) that one thing has. The zero value has none.
type Charge struct{ bytes int32 } // each session has some

// Bytes is how many it has.
func (x *Charge) Bytes() int { return int(x.bytes) }

// TrySet has the charge be of n bytes. Where it grows and there is no room it stays as it is, and the
// bound that leaves none is returned.
func (x *Charge) TrySet(c *Client, n int) *Bound {
	full := c.TryTake(Own, n-int(x.bytes))
	if full == nil {
		x.bytes = int32(n)
	}
	return full
}

// Set has the charge be of n bytes, whether there is room or not.
func (x *Charge) Set(c *Client, n int) {
	c.Add(Own, n-int(x.bytes))
	x.bytes = int32(n)
}
