package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// defineLimitFlags defines the flags for the limits, refusals and delays of the simulated cluster.
func (f *flags) defineLimitFlags(set *pflag.FlagSet) {
	c := &f.config
	set.Var(&limitFlag{&c.Limits}, "limit", "another limit than the cluster's, as name=number; names: "+strings.Join(limitNames(), ", "))
	set.DurationVar(&c.Limits.TransactionAge, "transaction-age", c.Limits.TransactionAge, "longest life of a transaction")
	set.BoolVar(&c.AllowByteaKeys, "allow-bytea-keys", false, "allow bytea in a key")
	set.BoolVar(&c.OldLocking, "old-locking", false, "refuse FOR UPDATE over several tables, and without equality on the whole key, as clusters did before August 2026")
	set.BoolVar(&c.WithoutSequenceDefaults, "without-sequence-defaults", false, "refuse nextval in a DEFAULT; a cluster accepts it by its documents, which was not recorded")
	set.BoolVar(&c.WithoutSequenceOwners, "without-sequence-owners", false, "refuse the OWNED BY of a sequence; a cluster accepts it by its documents, which was not recorded")
	set.BoolVar(&c.AllowDomainChanges, "allow-domain-changes", false, "accept ALTER DOMAIN with ADD CONSTRAINT or SET NOT NULL, and DROP DOMAIN CASCADE, which clusters refuse")
	set.BoolVar(&c.WithoutEncode, "without-encode", false, "have no encode() and decode(), to test rewrite.bytea hex-cast")
	set.BoolVar(&c.WithoutSuspension, "without-suspension", false, "refuse an Execute with a limit on rows, to test FETCH through Sluice")
	set.BoolVar(&c.LocksOutsideBlocks, "lock-outside-blocks", false, "let a locking clause outside of a transaction block lock its rows; a cluster's behaviour was not recorded")
	set.DurationVar(&c.JobDelay, "job-delay", c.JobDelay, "how long the build of an index takes")
}

// limitFlag is the flag that sets one of the simulated cluster's limits each time it is given.
type limitFlag struct{ limits *dsqlsim.Limits }

// limitsByName returns pointers to the simulated cluster's limits, by the names of the limits.
func limitsByName(l *dsqlsim.Limits) map[string]*int {
	return map[string]*int{
		"rows": &l.TransactionRows, "bytes": &l.TransactionBytes, "message-bytes": &l.MessageBytes,
		"value-bytes": &l.ValueBytes, "row-bytes": &l.RowBytes, "key-bytes": &l.KeyBytes,
		"declared-key-bytes": &l.DeclaredKeyBytes, "columns": &l.Columns, "indexes": &l.Indexes,
		"key-columns": &l.KeyColumns, "schemas": &l.Schemas, "tables": &l.Tables, "views": &l.Views,
		"sequences": &l.Sequences,
	}
}

// limitNames returns the names of the limits in the order of the help text.
func limitNames() []string {
	return strings.Fields("rows bytes message-bytes value-bytes row-bytes key-bytes declared-key-bytes " +
		"columns key-columns indexes schemas tables views sequences")
}

func (f *limitFlag) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	limit := limitsByName(f.limits)[name]
	if !ok || limit == nil {
		return fmt.Errorf("want name=number, one of %s", strings.Join(limitNames(), ", "))
	}
	n, err := strconv.Atoi(value)
	if err != nil || n <= 0 {
		return fmt.Errorf("%s: want a positive number", name)
	}
	*limit = n
	return nil
}

func (f *limitFlag) String() string { return "" }
func (f *limitFlag) Type() string   { return "name=number" }
