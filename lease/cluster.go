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

// privateLinkPattern matches a cluster's host name at a PrivateLink endpoint. The groups are the cluster's identifier
// and its region.
var privateLinkPattern = regexp.MustCompile(`^([a-z0-9-]+)\.dsql-[a-z0-9]+\.([a-z0-9-]+)\.on\.aws$`)

// ClusterNames returns a cluster's name in the lease's DynamoDB table: its public endpoint, with any port but 5432. A
// PrivateLink endpoint has the same name. With two names, sidecars would count up to the whole limit twice. earlier
// is the name that older versions used for this endpoint, or "" if the names are equal.
func ClusterNames(endpoint string, port int) (name, earlier string) {
	name = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(endpoint)), ".")
	if found := privateLinkPattern.FindStringSubmatch(name); found != nil {
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

// resolveClusterName decides between t.cluster and t.earlier, two possible names of the cluster's ledger (its items).
// A ledger that an older version created retains its name, so that sidecars of both versions share it. Two ledgers
// are an error, because their sidecars would not count each other's slots. An IAM policy may allow reads of one name
// only. A ledger that this process may not read counts as absent.
func (t *Table) resolveClusterName(ctx context.Context) error {
	if t.earlier == "" {
		return nil
	}
	now, _, err := t.readItem(ctx, t.slots, itemAddress{t.cluster, itemSettings}, true)
	before, _, earlierErr := t.readItem(ctx, t.slots, itemAddress{t.earlier, itemSettings}, true)
	switch {
	case err != nil && !isAccessDenied(err), err != nil && len(before) == 0:
		return err
	case earlierErr != nil && !isAccessDenied(earlierErr):
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

func isAccessDenied(err error) bool {
	e, ok := errors.AsType[*TableError](err)
	return ok && e.Cause == metrics.CauseAccessDenied
}
