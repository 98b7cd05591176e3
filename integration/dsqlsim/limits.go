package dsqlsim

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Limits are the limits of a cluster. A size or number that equals its limit is allowed. Sizes are in bytes.
type Limits struct {
	TransactionRows  int           // rows that a transaction writes
	TransactionBytes int           // what it writes
	TransactionAge   time.Duration // from its first statement to the start of its last
	MessageBytes     int           // a message of the protocol

	ValueBytes int // a text, bytea, json or jsonb as it is stored
	RowBytes   int // a row as it is stored
	KeyBytes   int // the columns of one key

	DeclaredKeyBytes                  int // the columns of one key, as declared
	Columns, Indexes                  int // of a table
	KeyColumns                        int // of an index
	Schemas, Tables, Views, Sequences int // of the cluster
}

// DefaultLimits returns the limits of a cluster. The limits of a transaction were recorded in September 2026. The other
// limits are from AWS's quotas page, 2026, with corrections that were measured in October 2026, such as KeyBytes.
func DefaultLimits() Limits {
	return Limits{
		TransactionRows: 3000, TransactionBytes: 10 << 20, TransactionAge: 300 * time.Second,
		MessageBytes: 10 << 20,
		ValueBytes:   1 << 20, RowBytes: 2 << 20, KeyBytes: 1981,
		DeclaredKeyBytes: 2000, Columns: 255, Indexes: 24, KeyColumns: 8,
		Schemas: 10, Tables: 1000, Views: 5000, Sequences: 5000,
	}
}

func (l *Limits) validate() error {
	var problems []error
	for _, each := range []struct {
		name  string
		value int
	}{
		{"transaction rows", l.TransactionRows}, {"transaction bytes", l.TransactionBytes},
		{"transaction age", int(l.TransactionAge)}, {"message bytes", l.MessageBytes},
		{"value bytes", l.ValueBytes}, {"row bytes", l.RowBytes}, {"key bytes", l.KeyBytes},
		{"declared key bytes", l.DeclaredKeyBytes}, {"columns", l.Columns}, {"indexes", l.Indexes},
		{"key columns", l.KeyColumns}, {"schemas", l.Schemas}, {"tables", l.Tables},
		{"views", l.Views}, {"sequences", l.Sequences},
	} {
		if each.value <= 0 {
			problems = append(problems, fmt.Errorf("limit of %s %d: must be positive", each.name, each.value))
		}
	}
	return errors.Join(problems...)
}

// codeLimit is the SQLSTATE program_limit_exceeded.
const codeLimit = "54000"

// The errors of a transaction over its limits (recorded: row_cap; measured 2026-09: size and age, with their details).
// The messages name a cluster's limits, whatever the Limits are. The details have the true numbers.
var tooManyRows = &failure{code: codeLimit, message: "transaction row limit exceeded"}

func tooLargeFailure(bytes, limit int) *failure {
	return &failure{code: codeLimit, message: "transaction size limit 10mb exceeded",
		detail: fmt.Sprintf("Current transaction size %.0fmb > %.0fmb", mebibytes(bytes), mebibytes(limit))}
}

func tooOldFailure(age, limit time.Duration) *failure {
	return &failure{code: codeLimit, message: "transaction age limit of 300s exceeded",
		detail: fmt.Sprintf("Current transaction age %.0fs exceeds %.0fs", age.Seconds(), limit.Seconds())}
}

func mebibytes(n int) float64 { return math.Ceil(float64(n) / (1 << 20)) }

// catalogSetting returns the value of parameter dsqlsim.limits. It lists the limits that the triggers of catalog.sql
// check, in the order in which the triggers read the list.
func (l *Limits) catalogSetting(byteaKeys bool) string {
	bytea := 0
	if byteaKeys {
		bytea = 1
	}
	return strings.Trim(fmt.Sprint([]int{
		l.Columns, l.KeyColumns, l.Indexes, l.Tables, l.Views, l.Sequences, l.Schemas,
		l.DeclaredKeyBytes, l.ValueBytes, l.RowBytes, l.KeyBytes, bytea,
	}), "[]")
}
