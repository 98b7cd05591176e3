package account

// Charge is the number of a client's bytes of the kind Own that one purpose uses. The zero Charge uses none.
type Charge struct{ bytes int32 } // small, because each session has several

// Bytes returns the number of bytes that are charged.
func (x *Charge) Bytes() int { return int(x.bytes) }

// TrySet sets the charge to n bytes. If a bound of the client's account leaves no room for more, TrySet leaves the
// charge unchanged and returns that bound.
func (x *Charge) TrySet(c *Client, n int) *Bound {
	full := c.TryTake(Own, n-int(x.bytes))
	if full == nil {
		x.bytes = int32(n)
	}
	return full
}

// Set sets the charge to n bytes, even if there is no room.
func (x *Charge) Set(c *Client, n int) {
	c.Add(Own, n-int(x.bytes))
	x.bytes = int32(n)
}
