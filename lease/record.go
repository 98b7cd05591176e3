package lease

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Record is what one owner says of itself in one shard. It stands in the table
// as text, and every change names the whole text that it replaces: whoever is
// late, or sends twice, changes nothing.
type Record struct {
	// Seq grows with every record that the owner's process writes, so that no
	// text ever comes again.
	Seq uint64
	// Slots that the owner holds in this shard.
	Slots int
	// Total is what its process holds in all shards, as of this writing.
	Total int
	// ReapAfter is how long the record must have stood unchanged before others
	// may take its slots. In milliseconds.
	ReapAfter time.Duration
	// Home marks one record of each process, so that they can be counted.
	Home bool
	// Waiting: the process is below its fair share and finds no free slot.
	Waiting bool
	// Lasting: it is older than a heartbeat, and not likely to crash as soon as
	// it has what it waits for. Shown with Home or Waiting only.
	Lasting bool
}

// String is the record's text in the table. Who lasts writes each flag twice:
// versions that know nothing of it read the same flags.
func (r Record) String() string {
	flags, times := "", 1
	if r.Lasting {
		times = 2
	}
	if r.Home {
		flags += strings.Repeat("h", times)
	}
	if r.Waiting {
		flags += strings.Repeat("w", times)
	}
	return fmt.Sprintf("%d|%d|%d|%d|%s", r.Seq, r.Slots, r.Total, r.ReapAfter.Milliseconds(), flags)
}

// ParseRecord reads what String wrote.
func ParseRecord(text string) (Record, error) {
	parts := strings.Split(text, "|")
	if len(parts) != 5 || strings.Trim(parts[4], "hw") != "" {
		return Record{}, badRecord(text)
	}
	seq, err := strconv.ParseUint(parts[0], 10, 64)
	if err != nil {
		return Record{}, badRecord(text)
	}
	var numbers [3]int
	for i, part := range parts[1:4] {
		if numbers[i], err = strconv.Atoi(part); err != nil || numbers[i] < 0 {
			return Record{}, badRecord(text)
		}
	}
	return Record{
		Seq: seq, Slots: numbers[0], Total: numbers[1], ReapAfter: time.Duration(numbers[2]) * time.Millisecond,
		Home: strings.Contains(parts[4], "h"), Waiting: strings.Contains(parts[4], "w"),
		Lasting: strings.Contains(parts[4], "hh") || strings.Contains(parts[4], "ww"),
	}, nil
}

func badRecord(text string) error {
	return fmt.Errorf("lease: record %q: want seq|slots|total|milliseconds|flags", text)
}

// A Shard is one item of the table: a part of the cluster's limit, and who holds
// of it.
type Shard struct {
	Limit int
	// Free slots. Below 0 after the limit was lowered: nothing is granted then
	// until enough came back.
	Free int
	// Owners' records as they stand in the table.
	Owners map[string]string
}

// Held is the sum of all records. A record that cannot be read counts as 0.
func (s Shard) Held() int {
	held := 0
	for _, text := range s.Owners {
		if r, err := ParseRecord(text); err == nil {
			held += r.Slots
		}
	}
	return held
}

// Drift is by how many slots the shard's numbers disagree: 0, unless somebody
// edited the table.
func (s Shard) Drift() int { return s.Limit - s.Free - s.Held() }

// A Change is one conditional write of one shard, the only kind there is. It
// happens if the owner's record is Old and, where it takes slots, enough of them
// are free; then the record becomes New and Take moves from free to the record.
type Change struct {
	Shard    int
	Owner    string
	Old, New string // "" for no record
	Take     int    // slots, below 0 to give back
	// Limit makes the shard when it does not exist and Old is "": a table whose
	// items have all expired begins anew.
	Limit int
}

// Apply is the definition of what a Store does with a Change: nil for a shard
// that does not exist. It returns the shard afterwards, and whether the change
// happened.
func (c Change) Apply(s *Shard) (*Shard, bool) {
	if s == nil {
		if c.Old != "" {
			return nil, false
		}
		return &Shard{Limit: c.Limit, Free: c.Limit - c.Take, Owners: map[string]string{c.Owner: c.New}}, true
	}
	if s.Owners[c.Owner] != c.Old || c.Take > 0 && s.Free < c.Take {
		return s, false
	}
	after := &Shard{Limit: s.Limit, Free: s.Free - c.Take, Owners: make(map[string]string, len(s.Owners)+1)}
	for owner, text := range s.Owners {
		after.Owners[owner] = text
	}
	after.Owners[c.Owner] = c.New
	if c.New == "" {
		delete(after.Owners, c.Owner)
	}
	return after, true
}

// A Reservation asks for tickets: the right to dial once each, one Interval
// apart. Times are microseconds of the table's clock.
type Reservation struct {
	Tickets  int
	Interval int64
	// The first ticket is due at Floor at the earliest: what was not used until
	// then is the burst. Nothing is reserved when it would be due after Ceiling,
	// which is not before Floor.
	Floor, Ceiling int64
	// Wrong, unless 0, is a next-ticket time that cannot be right. If it still
	// stands, it is replaced by Floor.
	Wrong int64
}

// Apply is the definition of what a Store does with a Reservation, given the
// time at which the next ticket is due: that time afterwards, and whether the
// tickets were reserved. They are due at next - Tickets*Interval and on.
func (r Reservation) Apply(next int64) (after int64, reserved bool) {
	if r.Wrong != 0 {
		if next != r.Wrong {
			return next, false
		}
		return r.Floor + int64(r.Tickets)*r.Interval, true
	}
	first := max(next, r.Floor)
	if first > r.Ceiling {
		return next, false
	}
	return first + int64(r.Tickets)*r.Interval, true
}
