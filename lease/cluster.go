package lease

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/metrics"
)

// privateForm is the name of a cluster at a PrivateLink endpoint: its identifier,
// dsql with a suffix, its region.
var privateForm = regexp.MustCompile(`^([a-z0-9-]+)\.dsql-[a-z0-9]+\.([a-z0-9-]+)\.on\.aws$`)

// Cluster is the name of a cluster in the table. It consists of its identifier and
// region, written as its public endpoint, whichever of its names is given: by two
// names it would have two ledgers, each with the whole limit. earlier is the name
// that versions before had for this endpoint, "" when it is the same.
func Cluster(endpoint string, port int) (name, earlier string) {
	name = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(endpoint)), ".")
	if found := privateForm.FindStringSubmatch(name); found != nil {
		earlier = name
		name = found[1] + ".dsql." + found[2] + ".on.aws"
	}
	if port != 5432 {
		name = net.JoinHostPort(name, strconv.Itoa(port))
		if earlier != "" {
			earlier = net.JoinHostPort(earlier, strconv.Itoa(port))
		}
	}
	return name, earlier
}

// settle finds out under which name the cluster has its ledger. One that a version
// before has made keeps its name, so that sidecars of both versions share it. Two
// of them are an error: whoever went by either would not know of the other's. The
// right to read may be limited to one name; then the other's is as good as none.
func (t *Table) settle(ctx context.Context) error {
	if t.earlier == "" {
		return nil
	}
	now, _, err := t.read(ctx, t.slots, address{t.cluster, itemSettings}, true)
	before, _, earlierErr := t.read(ctx, t.slots, address{t.earlier, itemSettings}, true)
	switch {
	case err != nil && !denied(err), err != nil && len(before) == 0:
		return err
	case earlierErr != nil && !denied(earlierErr):
		return earlierErr
	case len(now) > 0 && len(before) > 0:
		return &TableError{Cause: metrics.CauseTwoLedgers, Table: t.slots, Region: t.api.Options().Region,
			Err: errors.New("this cluster has two ledgers, under the keys " + t.cluster + " and " + t.earlier + ": " + remedies[metrics.CauseTwoLedgers])}
	case len(before) > 0:
		t.cluster, t.earlier = t.earlier, ""
	case len(now) > 0:
		t.earlier = ""
	}
	return nil
}

func denied(err error) bool {
	e, ok := errors.AsType[*TableError](err)
	return ok && e.Cause == metrics.CauseAccessDenied
}
