package sqlerror

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// An error that a limit causes names the limit's key and value. Only those that end the session are FATAL.
func TestErrors(t *testing.T) {
	code := regexp.MustCompile(`^[0-9A-Z]{5}$`)
	for _, test := range []struct {
		err   *wire.Error
		has   string
		fatal bool
	}{
		{TooManyClients(7), "listen.max_clients is 7", true},
		{NoDatabase("a b"), `database "a b" does not exist`, false},
		{DatabaseNotListed("d"), "listen.databases", false},
		{NoBackend(errors.New("the cause")), "the cause", false},
		{TooManyPins(3, "temporary table"), "(temporary table) and pins.max is 3", false},
		{SettingNotApplied([]byte("SERROR\x00C22023\x00Mwrong value\x00\x00")), "wrong value", false},
		{StatementExists([]byte("s")), `prepared statement "s" already exists`, false},
		{NoStatement(nil), "unnamed prepared statement", false},
		{NoStatement([]byte("s")), `prepared statement "s" does not exist`, false},
		{NoPortal([]byte("p")), `portal "p" does not exist`, false},
		{PortalExists([]byte("p")), `cursor "p" already exists`, false},
		{IndexJobContinues(Unsent), "sys.jobs", false},
		{TooManyStatements(5), "prepared.per_client is 5", false},
		{ClientTextsTooLong(6), "prepared.bytes_per_client, 6", false},
		{TotalTextsTooLong(8), "prepared.total_bytes, 8", false},
		{StatementTooLong(10, 9), "10 bytes and rewrite.max_bytes is 9", false},
		{MessageTooLong(12, 11), "12 bytes and backend.max_message_bytes is 11", false},
		{LocalSettingQueried("x"), "SHOW x", false},
		{StatementRefused(&rewrite.Statement{Refusal: &rewrite.Refusal{Code: "0A000", Message: "not supported"}}), "not supported", false},
		{UnknownOutcome, "its outcome is unknown", false},
		{Draining, "administrator command", true},
		{PinLost, "had state on", true},
	} {
		if text := test.err.Message + " " + test.err.Detail + " " + test.err.Hint; !strings.Contains(text, test.has) || !code.MatchString(test.err.Code) {
			t.Errorf("%s %s: no %q", test.err.Code, text, test.has)
		}
		if test.err.Fatal != test.fatal {
			t.Errorf("%s: FATAL %v", test.err.Message, test.err.Fatal)
		}
	}
}
