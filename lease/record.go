package lease

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Record is an owner's entry in one shard. The table holds the Record as text, and every change names the whole text
// that it replaces. So a late or repeated change has no effect.
type Record struct {
	// Seq is a number that grows with every record of the owner's process, so that no text occurs twice.
	Seq uint64
	// Slots is the number of slots that the owner holds in this shard.
	Slots int
	// Total is the number of slots that the owner's process held in all shards when the record was written.
	Total int
	// ReapAfter is the time after which others may take the slots of the unchanged record. The record's text has ReapAfter
	// in milliseconds.
	ReapAfter time.Duration
	// Home is true for exactly one record of each process, so that processes can be counted.
	Home bool
	// Waiting is true if the owner's process is below its fair share and finds no free slot.
	Waiting bool
	// Lasting is true if the owner's process is older than a heartbeat. Such a process is not likely to crash as soon as
	// it starts to work. The text shows Lasting with Home or Waiting only.
	Lasting bool
}

// String returns the record's text in the DynamoDB table. A lasting process writes each flag twice, which older
// versions read as one flag.
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

// ParseRecord parses a record's text, which Record.String has written.
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

// A Shard is one item of the DynamoDB table: a part of the cluster's connection limit, and the records of its owners.
type Shard struct {
	Limit int
	// Free is the number of free slots. A lowered limit may bring Free below 0, and nothing is granted then until enough
	// slots have come back.
	Free int
	// Owners maps the name of each owner to the text of its record.
	Owners map[string]string
}

// HeldSlots returns the sum of the slots of all records in the shard. An unreadable record counts as 0.
func (s Shard) HeldSlots() int {
	held := 0
	for _, text := range s.Owners {
		if r, err := ParseRecord(text); err == nil {
			held += r.Slots
		}
	}
	return held
}

// Drift returns by how many slots the shard's limit differs from free plus held slots. Drift is 0 unless someone has
// edited the table by hand.
func (s Shard) Drift() int { return s.Limit - s.Free - s.HeldSlots() }

// A ShardChange is one conditional write of one shard. The change happens if the owner's record is Old and, when it
// takes slots, enough of them are free. The record then becomes New, and Take slots move from free to the record.
type ShardChange struct {
	Shard    int
	Owner    string
	Old, New string // "" for no record
	Take     int    // number of slots; below 0 returns some
	// Limit is the limit of a shard that does not exist yet. If Old is "", the ShardChange creates a missing shard, for
	// example after all items have expired.
	Limit int
}

// Apply defines the effect of a ShardChange on a shard; s is nil for a shard that does not exist. Apply returns the
// shard afterwards, and whether the change happened.
func (c ShardChange) Apply(s *Shard) (*Shard, bool) {
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

// A Reservation asks the table for tickets. A ticket is the right to dial once, and two tickets are one Interval apart.
// Times are microseconds of DynamoDB's clock.
type Reservation struct {
	Tickets  int
	Interval int64
	// Floor is the earliest time of the first ticket, the right to dial once. Unused tickets since Floor are the burst.
	// Nothing is reserved if the first ticket would be due after Ceiling, which is not before Floor.
	Floor, Ceiling int64
	// Wrong is the table's time of the next ticket (right to dial once) if that time is too far ahead to be right, or
	// 0. If the table still has that time, the first reserved ticket is due at Floor.
	Wrong int64
}

// Apply defines the effect of a Reservation on next, the time of the next ticket (right to dial). It returns the time
// afterwards, and whether tickets were reserved. The first of them is due at after - Tickets*Interval.
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
