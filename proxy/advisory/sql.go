package advisory

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The statements about the table of locks. All names are qualified and all values are numbers
// or quoted, so that nothing depends on the settings of whoever had the connection before.

// Table is where the locks are.
const Table = "sluice.advisory_locks"

// Make are the statements that make the table, each a transaction of its own. The second unique
// constraint holds a lock to one row, whatever its epoch.
var Make = []string{
	"CREATE SCHEMA IF NOT EXISTS sluice",
	"CREATE TABLE IF NOT EXISTS " + Table + " (lock text NOT NULL, epoch bigint NOT NULL, owner text NOT NULL, seq bigint NOT NULL, lease_ms bigint NOT NULL, " +
		"PRIMARY KEY (lock, epoch), UNIQUE (lock))",
}

// NameOf is the name of the lock of a key, which has one number (a bigint) or two (integers): the
// two kinds are different locks, as in PostgreSQL. Databases have locks of their own.
func NameOf(database string, key []int64) string {
	parts := []string{strconv.Itoa(len(key))}
	for _, n := range key {
		parts = append(parts, strconv.FormatInt(n, 10))
	}
	return strings.Join(parts, "/") + "@" + database
}

// Look asks for the rows of locks.
func Look(names ...string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quote(name)
	}
	return "SELECT lock, epoch, owner, seq, lease_ms FROM " + Table + " WHERE lock IN (" + strings.Join(quoted, ", ") + ")"
}

// errRow is a row that is none of Look's.
var errRow = errors.New("a row of " + Table + " cannot be read")

// Read reads a row that Look has asked for.
func Read(columns []string) (name string, row Row, err error) {
	if len(columns) != 5 {
		return "", row, errRow
	}
	var numbers [3]int64
	for i, column := range []int{1, 3, 4} {
		if numbers[i], err = strconv.ParseInt(columns[column], 10, 64); err != nil {
			return "", row, errRow
		}
	}
	return columns[0], Row{Epoch: numbers[0], Owner: columns[2], Seq: numbers[1], Lease: time.Duration(numbers[2]) * time.Millisecond}, nil
}

// TakeTag is the tag of the last statement of Taking, where the lock is taken.
const TakeTag = "INSERT 0 1"

// Taking takes a lock whose row is as it was seen, nil for none; and the row that is made. The row
// that was there is deleted: to update its key would say less to servers that tell the two apart.
// It is a string of two statements, and so one transaction.
func Taking(name string, seen *Row, owner string, lease time.Duration) (sql string, made Row) {
	made = Row{Epoch: 1, Owner: owner, Seq: 1, Lease: lease}
	if seen != nil {
		made.Epoch, made.Seq = seen.Epoch+1, seen.Seq+1
		sql = fmt.Sprintf("DELETE FROM %s WHERE lock = %s AND epoch = %d AND owner = %s AND seq = %d; ", Table, quote(name), seen.Epoch, quote(seen.Owner), seen.Seq)
	}
	sql += fmt.Sprintf("INSERT INTO %s (lock, epoch, owner, seq, lease_ms) SELECT %s, %d, %s, %d, %d WHERE NOT EXISTS (SELECT 1 FROM %s WHERE lock = %s)",
		Table, quote(name), made.Epoch, quote(owner), made.Seq, lease.Milliseconds(), Table, quote(name))
	return sql, made
}

// Renew renews locks, each under the sequence number that its holder knows. The rows that it
// changes are as many as locks where all are still held.
func Renew(held []Holder, lease time.Duration) string {
	conditions := make([]string, len(held))
	for i, h := range held {
		conditions[i] = h.condition() + fmt.Sprintf(" AND seq = %d", h.Row.Seq)
	}
	return fmt.Sprintf("UPDATE %s SET seq = seq + 1, lease_ms = %d WHERE (%s)", Table, lease.Milliseconds(), strings.Join(conditions, ") OR ("))
}

// Release leaves locks to whoever wants them.
func Release(held []Holder) string {
	conditions := make([]string, len(held))
	for i, h := range held {
		conditions[i] = h.condition()
	}
	return "UPDATE " + Table + " SET owner = '', seq = seq + 1 WHERE (" + strings.Join(conditions, ") OR (") + ")"
}

// Fence are the queries that go in front of what a holder writes, in the same transaction. The
// first locks the keys of the holder's rows, at its top level, where that is known to conflict with
// a deletion. The second returns no row, and fails with FenceCode where one of the rows is not
// there any more: by the snapshot of both.
//
// Of more than Batch rows there are several such pairs, one behind the other.
func Fence(held []Holder) (queries []string) {
	for some := range slices.Chunk(held, Batch) {
		conditions := make([]string, len(some))
		for i, h := range some {
			conditions[i] = h.condition()
		}
		where := Table + " WHERE (" + strings.Join(conditions, ") OR (") + ")"
		queries = append(queries, "SELECT 1 FROM "+where+" FOR KEY SHARE",
			fmt.Sprintf("SELECT 1 FROM (SELECT pg_catalog.count(*) AS n FROM %s) AS held WHERE 1 / (n / %d) IS NULL", where, len(some)))
	}
	return queries
}

// Batch is of how many locks one statement is at most. A cluster bounds how deep and how long a text
// may be, and a statement of all the locks of a session would be of any length.
const Batch = 50

// FenceCode is the SQLSTATE of a fence that fails: that of a division by zero.
const FenceCode = "22012"

// condition says which row is the holder's.
func (h Holder) condition() string {
	return fmt.Sprintf("lock = %s AND epoch = %d AND owner = %s", quote(h.Name), h.Row.Epoch, quote(h.Row.Owner))
}

// quote is a text as SQL has it.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
