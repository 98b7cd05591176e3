package ddltx

import (
	"encoding/binary"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/txtime"
)

// This file gives all parts of a transaction the same time. In PostgreSQL, now() does not change in a transaction.
// At the server each part is a transaction with a time of its own.
//
// Later parts get the time of the first part that read the clock. The session asks the server for that time at the
// part's COMMIT, and again in a replay of the part. Functions, views and defaults of added columns read the time of
// their own part. A multi-statement query outside a block has the time at which its first group begins.

// prepareTime prepares for the COMMIT of the uncommitted part. seen is the transaction time that the client has got
// before, or nil. asked is the part's time, if the server has returned it. prepareTime reports whether the block has
// a time. Otherwise, if the part has read the clock, the session must ask the server (SetAskedTime, fixTime).
func (x *Tx) prepareTime(seen *txtime.Time, asked txtime.Value) (known bool) {
	if seen != nil {
		x.timed = seen
	}
	x.asked = asked
	return x.timed != nil
}

// SetAskedTime records the uncommitted part's transaction time, as the server has returned it. A replay of the part
// records the zero Value first, because the replay has another time.
func (x *Tx) SetAskedTime(v txtime.Value) { x.asked = v }

// fixTime gives later parts of a block the time that the server has returned for the uncommitted part. If the server
// has returned none, the time is unknown, and Sluice refuses later parts that read the clock.
func (x *Tx) fixTime() { x.timed = &txtime.Time{Instant: x.asked, Committed: true} }

// timeQuery selects the transaction's time in microseconds since 2000, as in PostgreSQL's binary format.
const timeQuery = "SELECT ((extract(epoch FROM pg_catalog.now()) - 946684800) * 1000000)::bigint"

// timeOfRow returns the transaction's time from the payload of a DataRow that answers timeQuery. ok is false for a
// payload without a number.
func timeOfRow(row []byte) (v txtime.Value, ok bool) {
	n, err := strconv.ParseInt(string(row[min(6, len(row)):]), 10, 64) // column count (2 bytes), length (4), value
	if err != nil {
		return txtime.Value{}, false
	}
	return txtime.Value{Format: 1, Bytes: binary.BigEndian.AppendUint64(nil, uint64(n)), IsInstant: true}, true
}
