// Package lease shares one cluster's connection count and connection rate among
// all its sidecars, through a DynamoDB table. It is DynamoDB's only door.
//
// # The ledger
//
// The limit is spread over shards, one item each. A shard holds what is free of
// its part and one record for each owner. Every change is one conditional write
// of one item, which names the record it replaces: count and record cannot
// diverge, and a write that is repeated, late or doubled changes nothing. A
// change whose outcome is unknown is sent again unchanged until it is known;
// nobody ever concludes from a read that it did not happen.
//
// Slots belong to the sidecar. A backend that is recycled writes nothing.
//
// # Keys and formats
//
// DynamoDB takes 1,000 write units per second for one partition key at most. In format
// 2 each shard's item has a key of its own, under which DynamoDB can put it anywhere;
// the settings, which sidecars only read, and the next ticket's time have the cluster's.
// Nothing is ever written to two items together, and none is found by a query: all
// names are known. In format 1, of the versions before, all items have the cluster's key.
//
// A table is migrated while sidecars run, shard by shard (move.go). One write closes the
// item of format 1 for good: its count becomes a text, which no version can reckon with,
// and this version's changes all require that it is open. So what is in it then is
// final, and whoever meets it moves it: the operator, or a sidecar, as often as
// they like, since all copy the same. A change that meets a closed item is made once
// more, as it is, on the one it was moved to: to ledger, both are one shard. The settings
// become those of format 2 when all are moved, and from then on nobody looks for closed
// items. These stay, and do not expire; a new table has them too. An older
// version that writes the settings of format 1 over ours makes no second ledger: its shards are closed.
//
// A record's name tells whether its owner follows a shard that is moved: whether it has
// this code, and a policy that allows the new keys (Store.Follows). While there is any
// that does not, nothing is migrated. If one joins while a shard is being closed, it could go on
// renewing its record there, beside a copy that others reap. So all records are put
// aside before the item is moved. Its owner finds it gone and closes its backends at once;
// its slots stay taken in the copy, and are reaped by time as those of any dead one.
//
// # Time
//
// An owner counts from the moment it sent its newest record: no backend of its
// own is open longer than ReapAfter - Guard after that. Others count from the
// moment they first saw the record, which is later, and take its slots when it
// has not changed for ReapAfter. Both use a clock that neither steps nor stands
// still, and no wall clock. So a slot is taken away only when nothing uses it,
// whoever is dead, slow, or cut off from the table.
//
// One thing breaks that: a process that does not run (SIGSTOP, a paused virtual
// machine, a debugger) closes nothing. When it stands still for ReapAfter, others
// take its slots while its backends are open, and the cluster is over the limit by
// what it holds, until it runs again and closes them at once, or the cluster's own
// limit on a connection's age does. Margin is for this too: at least what the
// largest sidecar may hold.
//
// # Evidence
//
// Names, numbers of processes and silence do not prove that a process is gone. A
// file does (file.go): its lock is taken before the first call and let go by the
// kernel alone, when the process ends, with its sockets. Who gets the lock next
// leaves for its predecessors (predecessor.go): it removes exactly the records that
// the file names, and joins anew under a name of its own. It never continues one.
// Where there is no lock to be had, or no file, time decides as above.
//
// # Settings
//
// The limit and the rate are the table's, read once a heartbeat, and not the
// configuration's. A shard's limit changes together with what is free of it, which may
// fall below 0: nothing is granted there then, and those who hold more than the fair
// share give back a part of what they hold with each heartbeat. So more may be open
// than a limit that was lowered, never more than the highest limit so far.
//
// # Tickets
//
// One item holds the time at which the next ticket is due, in DynamoDB's own
// time. A sidecar reserves some with one write and dials when they are due:
// nobody polls. A part of the rate is kept for sidecars that cannot reach the
// table.
//
// First backends come first. Who has none reserves one ticket however long the queue
// is, up to MaxWait; who has some waits until it is short, the shorter the more it has;
// and in the first seconds after its own start it leaves the burst to others. The tenth
// backend is reserved by itself. Who meets a queue in these seconds takes none before they are over,
// and before that queue has dialled; who sees in them that others take tickets, none before there has
// been no queue for as long as a dial takes.
//
// # Fairness
//
// Below the fair share (the limit over the number of sidecars that live) a sidecar
// takes what is free. Who is below it and finds nothing says so in its record;
// those above it there give back what is lacking, in equal parts, as they renew.
// A record that has not changed for two heartbeats, on the clock of who looks at
// it, counts as dead: it shares nothing and waits for nothing, though its slots are
// its own until they are reaped. Who came less than a heartbeat ago is owed one
// block: if it is a pod that crashes again and again, it costs the others no more.
//
// # How it is built
//
// ledger and tickets (tickets.go) decide, core (core.go) puts their calls in order. ledger.go has what a ledger
// knows and what comes next, permits.go how many permits may be out, part.go its own records, peers.go those of
// others, grow.go the way to more slots, and predecessor.go what a dead process has left. They do no I/O and are told the time, so
// that tests can drive thousands of them through any fault. Lease runs one core:
// Run is the only place that calls the Store, one call at a time, and Admit and
// Release only look at what it has got. Table (table.go, keys.go) is the Store in
// DynamoDB; Change.Apply and Reservation.Apply define what a Store does.
// Static stands in where nothing is shared.
//
// # Invariants
//
//   - In every shard free + held = limit, after every write.
//   - Permits that are out never exceed the slots that are surely held.
//   - Neither Release nor State touches the network; Admit only waits.
package lease
