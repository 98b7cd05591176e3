package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// allIgnored has Sluice ignore every setting that it knows a form of.
var allIgnored = configure(func(c *proxy.Config) {
	c.IgnoredSettings = []string{"lock_timeout", "client_connection_check_interval", "tcp_user_timeout", "tcp_keepalives_idle", "tcp_keepalives_count",
		"work_mem", "maintenance_work_mem", "check_function_bodies", "jit", "row_security", "synchronize_seqscans", "synchronous_commit", "client_min_messages", "xmloption"}
})

// Values that Sluice keeps or ignores are taken, refused and shown as by PostgreSQL.
func TestValuesOfKeptSettings(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, asDSQL, allIgnored)
	values := map[string]string{
		"statement_timeout idle_in_transaction_session_timeout lock_timeout client_connection_check_interval": `'1.5s' '12345ms' 5000 '90000' 'abc' '5 weeks' -1 '1.5' '2.5' 2.5 '0.5ms'
			'2147483648' 2147483647 '25d' '24d' '0x10' '0x' '0xg' 1e3 '1e3' '010' '09' '_5_s_' '5s_x' '' '_' '0.4' '1500us' 'nan' 'inf' '1h' '0s' '36h' '60min' on 1,2 '99999999999999999999'
			'-99999999999999999999' '+5s' '-5s' '.5s' '5.s' '1e400' '5e' '5e+' '1e-3s' '--5' '1.0000001min' '0.9999d' '7us' 'S' '5S' 'e5' '.' '0.1.2' DEFAULT`,
		"tcp_keepalives_idle":           `'1.5s' '1500ms' 7200 '2h' '1min' -1 '' '1kB'`,
		"tcp_keepalives_count":          `3 '1.5' '1_s' -1 '2147483648'`,
		"work_mem maintenance_work_mem": `1 63 64 '65kB' '2MB' '1.5MB' '2048' '1_gb' '1GB' '2TB' '1023kB' '5_s' '70000B' '1048575'`,
		"jit check_function_bodies row_security synchronize_seqscans": `on off 'tru' 't' 'F' 'o' 'of' 'ON' 'y' 'no' 1 0 2 '' '_on'`,
		"client_min_messages": `'DEBUG' debug2 warning info fatal 'x' '' error`,
		"synchronous_commit":  `true 1 'remote_apply' 'LOCAL' 'x' off 'no'`,
		"xmloption":           `document 'CONTENT' 'x'`,
	}
	for names, all := range values {
		for name := range strings.FieldsSeq(names) {
			var script strings.Builder
			for value := range strings.FieldsSeq(all) {
				fmt.Fprintf(&script, "Q SET %s = %s\n< Z\nQ SHOW %s\n< Z\n", name, strings.ReplaceAll(value, "_", " "), name)
			}
			want := perform(t, pg.addr, script.String())
			if got := perform(t, s.addr, script.String()); got != want {
				t.Errorf("through Sluice:\n%s", firstDifference(got, want))
			}
		}
	}
}
