package advisory

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file has the statements about the table of advisory locks. All names are qualified and all values are numbers or
// quoted, so that no setting of the connection matters.

// Table is the name of the table of advisory locks.
const Table = "sluice.advisory_locks"

// CreateStatements lists the statements that create the table of locks. Each is a transaction of its own. The second
// unique constraint allows one row per lock, whatever its epoch (the count of its holders).
var CreateStatements = []string{
	"CREATE SCHEMA IF NOT EXISTS sluice",
	"CREATE TABLE IF NOT EXISTS " + Table + " (lock text NOT NULL, epoch bigint NOT NULL, owner text NOT NULL, seq bigint NOT NULL, lease_ms bigint NOT NULL, " +
		"PRIMARY KEY (lock, epoch), UNIQUE (lock))",
}

// LockName returns the name of the advisory lock with a key. A key has one number (a bigint) or two (integers), which
// are different locks, as in PostgreSQL. Each database has its own locks.
func LockName(database string, key []int64) string {
	parts := []string{strconv.Itoa(len(key))}
	for _, n := range key {
		parts = append(parts, strconv.FormatInt(n, 10))
	}
	return strings.Join(parts, "/") + "@" + database
}

// SelectRowsSQL returns the query for the rows of the locks with these names.
func SelectRowsSQL(names ...string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quoteLiteral(name)
	}
	return "SELECT lock, epoch, owner, seq, lease_ms FROM " + Table + " WHERE lock IN (" + strings.Join(quoted, ", ") + ")"
}

// errRow is the error for a row that the query of SelectRowsSQL cannot have returned.
var errRow = errors.New("a row of " + Table + " cannot be read")

// ParseRow decodes a row that the query of SelectRowsSQL returned.
func ParseRow(columns []string) (name string, row LockRow, err error) {
	if len(columns) != 5 {
		return "", row, errRow
	}
	var numbers [3]int64
	for i, column := range []int{1, 3, 4} {
		if numbers[i], err = strconv.ParseInt(columns[column], 10, 64); err != nil {
			return "", row, errRow
		}
	}
	return columns[0], LockRow{Epoch: numbers[0], Owner: columns[2], Seq: numbers[1], Lease: time.Duration(numbers[2]) * time.Millisecond}, nil
}

// TakeTag is the command tag of the last statement in TakeSQL's text, if that statement has taken the lock.
const TakeTag = "INSERT 0 1"

// TakeSQL returns the SQL that takes a lock, if the lock's row is still the row seen. A nil seen means that the lock
// had no row. made is the new row. The SQL deletes the old row and does not update its key, because some servers treat
// such an update differently. The SQL is a multi-statement query, and so one transaction.
func TakeSQL(name string, seen *LockRow, owner string, lease time.Duration) (sql string, made LockRow) {
	made = LockRow{Epoch: 1, Owner: owner, Seq: 1, Lease: lease}
	if seen != nil {
		made.Epoch, made.Seq = seen.Epoch+1, seen.Seq+1
		sql = fmt.Sprintf("DELETE FROM %s WHERE lock = %s AND epoch = %d AND owner = %s AND seq = %d; ", Table, quoteLiteral(name), seen.Epoch, quoteLiteral(seen.Owner), seen.Seq)
	}
	sql += fmt.Sprintf("INSERT INTO %s (lock, epoch, owner, seq, lease_ms) SELECT %s, %d, %s, %d, %d WHERE NOT EXISTS (SELECT 1 FROM %s WHERE lock = %s)",
		Table, quoteLiteral(name), made.Epoch, quoteLiteral(owner), made.Seq, lease.Milliseconds(), Table, quoteLiteral(name))
	return sql, made
}

// RenewSQL returns the statement that renews locks, each with the sequence number that its holder knows. The statement
// changes as many rows as locks are still held.
func RenewSQL(held []LockHolder, lease time.Duration) string {
	conditions := make([]string, len(held))
	for i, h := range held {
		conditions[i] = h.rowCondition() + fmt.Sprintf(" AND seq = %d", h.Row.Seq)
	}
	return fmt.Sprintf("UPDATE %s SET seq = seq + 1, lease_ms = %d WHERE (%s)", Table, lease.Milliseconds(), strings.Join(conditions, ") OR ("))
}

// ReleaseSQL returns the statement that frees the locks of these holders.
func ReleaseSQL(held []LockHolder) string {
	conditions := make([]string, len(held))
	for i, h := range held {
		conditions[i] = h.rowCondition()
	}
	return "UPDATE " + Table + " SET owner = '', seq = seq + 1 WHERE (" + strings.Join(conditions, ") OR (") + ")"
}

// FenceQueries returns the queries that precede a holder's writes, in the same transaction. The first query locks the
// rows of the held locks FOR KEY SHARE at its top level, which is known to conflict with a deletion. The second query
// returns no row. The second query fails with FenceCode if one of the rows is missing in the snapshot that both queries
// use.
//
// For more than Batch locks there are several pairs of queries.
func FenceQueries(held []LockHolder) (queries []string) {
	for some := range slices.Chunk(held, Batch) {
		conditions := make([]string, len(some))
		for i, h := range some {
			conditions[i] = h.rowCondition()
		}
		where := Table + " WHERE (" + strings.Join(conditions, ") OR (") + ")"
		queries = append(queries, "SELECT 1 FROM "+where+" FOR KEY SHARE",
			fmt.Sprintf("SELECT 1 FROM (SELECT pg_catalog.count(*) AS n FROM %s) AS held WHERE 1 / (n / %d) IS NULL", where, len(some)))
	}
	return queries
}

// Batch bounds the locks in one statement. A cluster bounds the depth and length of a text, and a session may have any
// number of locks.
const Batch = 50

// FenceCode is the SQLSTATE with which a query of FenceQueries fails: division by zero.
const FenceCode = "22012"

// rowCondition returns the SQL condition that the row in the table is the holder's.
func (h LockHolder) rowCondition() string {
	return fmt.Sprintf("lock = %s AND epoch = %d AND owner = %s", quoteLiteral(h.Name), h.Row.Epoch, quoteLiteral(h.Row.Owner))
}

// quoteLiteral returns a text as an SQL string constant.
func quoteLiteral(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
