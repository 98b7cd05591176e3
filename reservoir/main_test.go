package reservoir

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// superuserPassword is asked for over TCP by the shared PostgreSQL.
const superuserPassword = "not in any log"

func TestMain(m *testing.M) {
	code := pgtest.Main(m, pgtest.TLS("db.example"), pgtest.SCRAM(superuserPassword))
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
