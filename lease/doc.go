// Package lease shares one cluster's connection count and connection rate among all its sidecars, through a DynamoDB
// table. No other package calls DynamoDB.
//
// # The ledger
//
// The cluster's limit of connections is divided among shards, each of which is one item of the table. A shard holds its
// number of free slots and one record for each owner, a process that holds slots there. Every change is one conditional
// write of one item, which names the record that it replaces. So count and record cannot diverge, and a repeated or
// late write changes nothing. A change whose outcome is unknown is sent again, unchanged, until its outcome is known.
// No read proves that a change did not happen.
//
// A slot belongs to the sidecar and not to one backend, so replacing a backend writes nothing to the table.
//
// # Keys and formats
//
// DynamoDB accepts at most 1,000 write units per second for one partition key. In format 2 each shard's item has its
// own partition key. The settings, which sidecars only read, and the time of the next ticket are under the cluster's
// key. No write concerns two items, and no item is found by a query, because all names are known. In format 1, of older
// versions, all items are under the cluster's key.
//
// A table is migrated to format 2 shard by shard while sidecars run (move.go). One write closes the item of format 1
// for good. Its count becomes a text, with which no version can calculate, and every change by this version requires an
// open item. The content of a closed item is therefore final. The operator, or any sidecar that reads the closed item,
// copies it to its new key, and all copies are equal. A change that meets a closed item is sent again, unchanged, to
// the new key. So the ledger sees one shard.
//
// When all shards are moved, the settings change to format 2, and no process looks for closed items any more. Closed
// items stay and do not expire; a new table has closed items too. An older version that overwrites the settings with
// format 1 creates no second ledger, because its shards are closed.
//
// An owner's name shows whether the owner can use a shard that was moved. An owner can use it if the owner runs this
// version, and if its IAM policy allows the new keys (Store.FindsMovedShards). A table is not migrated while an owner
// cannot use moved shards. If such an owner joins while a shard is being closed, it could renew its old record while
// others reap the copy. So all records are renamed before the item is copied. Then that owner finds its record gone and
// closes its backends at once. Its slots stay taken in the copy and are reaped by time.
//
// # Time
//
// An owner counts from the moment it sent its newest record. After ReapAfter - Guard none of its backends is open.
// Other processes count from the moment they first saw the record, which is later. They take the owner's slots when
// its record has not changed for ReapAfter. Owner and others use a monotonic clock that advances while the machine
// sleeps, and no wall clock. So no slot is taken away while a backend uses it, even if its owner is slow or cannot
// reach the table.
//
// The exception is a process that does not run (SIGSTOP, a paused virtual machine, a debugger), because it closes
// nothing. After ReapAfter others take its slots while its backends are open, and the cluster exceeds the limit by
// their number. The excess ends when the process runs again and closes its backends, or when the cluster closes them
// for their age. Margin covers this case: it should be at least the largest number of slots of one sidecar.
//
// # Evidence
//
// Names, process numbers and silence do not prove that a process has ended. A free lock of the process's lock file
// proves it (file.go). A process takes the lock before its first call, and the kernel releases it together with the
// process's sockets. The next process with the lock removes the records that the file names (predecessor.go), and joins
// under a new name. It never takes over a record. Without a file or a lock, time decides as above.
//
// # Settings
//
// The limit and the rate come from the table, which is read once a heartbeat, and not from the configuration. A shard's
// limit changes together with its free slots, which may fall below 0. Nothing is then granted in that shard, and
// sidecars above the fair share return some slots with each heartbeat. So a lowered limit may be exceeded for a while,
// but never the highest limit so far.
//
// # Tickets
//
// A ticket is the right to dial once. One item holds the time of the next ticket, in DynamoDB's own time. A sidecar
// reserves several tickets with one write and dials when they are due, without polling. A part of the rate is reserved
// for sidecars that cannot reach the table.
//
// First backends have precedence. A sidecar without backends reserves one ticket however long the queue is, up to
// MaxWait. A sidecar with backends waits until the queue is short, and the more backends it has, the shorter the
// queue must be. In the first seconds after its own start it leaves saved tickets (Burst) to others. The ticket of
// the tenth backend is reserved alone. If a sidecar sees a queue in its first seconds, it waits until these are over
// and that queue's sidecars have dialled. A sidecar that sees others take tickets waits until there has been no
// queue for the time of a dial.
//
// # Fairness
//
// The fair share is the limit divided by the number of living sidecars. A sidecar below the fair share takes free
// slots. If it finds no free slot, it writes into its record that it waits. Sidecars above the fair share in that
// shard then return the missing slots, in equal parts, as they renew.
//
// A record that has not changed for two heartbeats counts as dead. It has no share and no claim, but its slots stay
// taken until other sidecars take them. A sidecar younger than a heartbeat may be a pod that crashes again and
// again. So it has a claim to one block of slots only.
//
// # How it is built
//
// slotLedger and ticketLedger decide, and leaseState orders their calls. The three types do no I/O and receive the time
// as a parameter, so that tests can drive thousands of them through any fault.
//
//   - ledger.go: state and the next call; permits.go: the number of permits
//   - part.go: own records; peers.go: records of others; grow.go: the search for slots
//   - predecessor.go: records of an ended process; tickets.go: the connection rate
//
// A Lease runs one leaseState. Only Run calls the Store, one call at a time. Admit and Release read the results. Table
// (table.go, keys.go) is the Store in DynamoDB. ShardChange.Apply and Reservation.Apply define a Store's effects.
// Unlimited replaces a Lease where nothing is shared.
//
// # Invariants
//
//   - In every shard free + held = limit, after every write.
//   - Permits in use never exceed the slots that are certainly held.
//   - Neither Release nor State uses the network, and Admit only waits.
package lease
