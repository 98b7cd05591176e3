package config_test

import (
	"testing"

	"github.com/sluice-proxy/sluice/cmd/sluice/config/configtest"
)

// ddl.carry_out: all says what the keys are that are at auto, and no other.
func TestCarryOut(t *testing.T) {
	type keys struct{ addDefault, alterType, enums, inTransactions, notNull, locks, truncate string }
	refused := keys{"refuse", "refuse", "refuse", "refuse", "refuse", "refuse", "refuse"}
	for _, test := range []struct {
		flags []string
		want  keys
	}{
		{[]string{"--endpoint=" + configtest.Endpoint}, refused},
		{[]string{"--endpoint=localhost", "--backend-kind=postgres"}, refused},
		{[]string{"--endpoint=" + configtest.Endpoint, "--ddl-carry-out=all"}, keys{"backfill", "rewrite", "domain", "autocommit-destructive", "check", "table", "batches"}},
		{[]string{"--endpoint=" + configtest.Endpoint, "--ddl-carry-out=all", "--rewrite-advisory-locks=refuse", "--rewrite-truncate=delete", "--ddl-in-transactions=refuse"},
			keys{"backfill", "rewrite", "domain", "refuse", "check", "refuse", "delete"}},
		{[]string{"--endpoint=" + configtest.Endpoint, "--client-users=m:ddl.carry_out=all"}, refused}, // a user's choice is the user's
	} {
		c := configtest.Source{Flags: test.flags}.MustLoad(t)
		if got := (keys{c.DDL.AddColumnDefault, c.DDL.AlterColumnType, c.DDL.CreateEnum, c.DDL.InTransactions, c.DDL.SetNotNull, c.Rewrite.AdvisoryLocks, c.Rewrite.Truncate}); got != test.want {
			t.Errorf("%v: %+v, want %+v", test.flags, got, test.want)
		}
		if rules := c.Rewrite.Rules; rules.Advisory != (test.want.locks == "table") || rules.Truncate != "" && string(rules.Truncate) != test.want.truncate {
			t.Errorf("%v: locks %v, TRUNCATE %s", test.flags, rules.Advisory, rules.Truncate)
		}
	}
}
