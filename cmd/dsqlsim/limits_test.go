package main

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

func TestLimitFlags(t *testing.T) {
	t.Parallel()
	f := flags{config: dsqlsim.DefaultConfig()}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.defineLimitFlags(set)
	if err := set.Parse([]string{"--limit", "rows=5", "--limit=schemas=77", "--transaction-age", "3s", "--allow-bytea-keys", "--old-locking", "--without-encode", "--allow-domain-changes", "--without-sequence-defaults", "--without-sequence-owners", "--without-suspension", "--lock-outside-blocks"}); err != nil {
		t.Fatal(err)
	}
	l := f.config.Limits
	if l.TransactionRows != 5 || l.Schemas != 77 || l.Tables != 1000 || l.TransactionAge.Seconds() != 3 || !f.config.AllowByteaKeys || !f.config.OldLocking || !f.config.WithoutEncode || !f.config.AllowDomainChanges || !f.config.WithoutSequenceDefaults || !f.config.WithoutSequenceOwners || !f.config.WithoutSuspension || !f.config.LocksOutsideBlocks {
		t.Errorf("got %+v", f.config)
	}
	if len(limitNames()) != len(limitsByName(&l)) {
		t.Error("the help does not name every limit")
	}
	for _, wrong := range []string{"rows", "rows=", "rows=0", "rows=x", "pigs=1"} {
		if err := set.Parse([]string{"--limit", wrong}); err == nil {
			t.Errorf("%s: accepted", wrong)
		}
	}
}
