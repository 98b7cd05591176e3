package kubernetes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/kubernetes/event"
)

// rollouts is how often pods are replaced while they write.
const rollouts = 20

// TestRollouts replaces the application's pods, and the image of their sidecar, while they
// write: what was acknowledged is there, once, and nothing failed.
func TestRollouts(t *testing.T) {
	installInjector(t)
	newNamespace(t, "rollouts", "sluice.dev/injection=enabled")
	newTable(t, "rollouts")
	if err := world.Tag(t.Context(), "localhost/sluice:e2e", "localhost/sluice:e2e-0"); err != nil {
		t.Fatal(err)
	}
	if err := world.Tag(t.Context(), "localhost/sluice:e2e", "localhost/sluice:e2e-1"); err != nil {
		t.Fatal(err)
	}
	apply(t, "rollouts", fmt.Sprintf(`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "writer"},
"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "writer"}}, "template": {"metadata": {"labels": {"app": "writer"}},
"spec": {"terminationGracePeriodSeconds": 30, "containers": [%s]}}}}`, ledger("-workers=4")))
	rolledOut(t, "rollouts", "writer")
	for i := range rollouts {
		image := ""
		if i%2 == 0 {
			kubectl(t, "", "-n", "rollouts", "set", "env", "deployment/writer", fmt.Sprintf("ROUND=%d", i))
		} else {
			image = fmt.Sprintf("localhost/sluice:e2e-%d", i/2%2)
			helm(t, "upgrade", "sluice", chart, "-n", "sluice-system", "--wait", "--reuse-values", "--set", "image.tag="+image[strings.LastIndex(image, ":")+1:])
			// The injector's old pods answer until their end, and make sidecars of the old image.
			eventually(t, "the old injector ends", func() string {
				if n := len(items(t, "sluice-system", "pods")); n != 2 {
					return fmt.Sprintf("%d pods", n)
				}
				return ""
			})
			kubectl(t, "", "-n", "rollouts", "rollout", "restart", "deployment/writer")
		}
		rolledOut(t, "rollouts", "writer")
		if image == "" {
			continue
		}
		for _, pod := range items(t, "rollouts", "pods", "-l", "app=writer", "--field-selector=status.phase=Running") {
			if at(pod, "metadata", "deletionTimestamp") == nil && at(pod, "spec", "initContainers", 0, "image") != image {
				t.Errorf("a pod behind the rollout has the image %v, want %s", at(pod, "spec", "initContainers", 0, "image"), image)
			}
		}
	}
	endPods(t, "rollouts", "writer")
	l := readLedger(t, "writer")
	l.expectWhole(t)
	if l.pods < 2*rollouts {
		t.Errorf("%d pods were there, want two for each rollout", l.pods)
	}
	t.Logf("%d rollouts, half of them of the sidecar's image: %v", rollouts, l)
}

// TestManifests runs what deploy/kubernetes has to copy, and, to see that a failure would
// be seen, an ordinary container that is told to drain as if it were a sidecar.
func TestManifests(t *testing.T) {
	newNamespace(t, "manifests")
	kubectl(t, "", "-n", "manifests", "create", "serviceaccount", "app")
	ask(t, "DROP TABLE IF EXISTS ledger")
	ask(t, "CREATE TABLE ledger (writer text NOT NULL, n int NOT NULL)")
	for _, c := range []struct {
		file, words string
		whole       bool
	}{
		{"sidecar.yaml", "", true},
		{"plain.yaml", "", true},
		{"plain.yaml", "value: plain value: native", false},
	} {
		name := strings.TrimSuffix(c.file, ".yaml")
		if !c.whole {
			name = "sabotaged"
		}
		words := []string{"name: app\n", "name: " + name + "\n", "app: app", "app: " + name, "IMAGE", "localhost/sluice:e2e", "CLUSTER.dsql.REGION.on.aws", world.sim.Endpoint,
			"image: APPLICATION", fmt.Sprintf("image: localhost/ledger:dev\n          args: [-collector=%s, -wait=30s]", world.ledger.Address()),
			`- {name: DSQL_ADMIN_ADDRESS`, fmt.Sprintf(`- {name: DSQL_BACKEND_ADDRESS, value: %s}
            - {name: DSQL_BACKEND_PORT, value: "%d"}
            - {name: DSQL_ADMIN_ADDRESS`, nodeAddress, simPort)}
		if !c.whole {
			words = append(words, "value: plain}", "value: native}")
		}
		apply(t, "manifests", shipped(t, "kubernetes/"+c.file, words...))
		rolledOut(t, "manifests", name)
		waitFor(t, name, event.Acknowledged, 100)
		for range 3 {
			kubectl(t, "", "-n", "manifests", "rollout", "restart", "deployment/"+name)
			rolledOut(t, "manifests", name)
			waitFor(t, name, event.Acknowledged, 100)
			time.Sleep(2 * time.Second)
		}
		endPods(t, "manifests", name)
		l := readLedger(t, name)
		if c.whole {
			l.expectWhole(t)
		} else if l.failed == 0 {
			t.Errorf("nothing failed where an ordinary container drains as a sidecar: %v", l)
		}
		t.Logf("%s, 3 rollouts: %v", name, l)
	}
}

// rolledOut waits until a Deployment has the pods that it is to have.
func rolledOut(t *testing.T, namespace, name string) {
	t.Helper()
	kubectl(t, "", "-n", namespace, "rollout", "status", "deployment/"+name, "--timeout=110s")
}

// endPods takes all pods of a Deployment away, and waits until they are gone.
func endPods(t *testing.T, namespace, name string) {
	t.Helper()
	kubectl(t, "", "-n", namespace, "scale", "deployment", name, "--replicas=0")
	eventually(t, "the pods end", func() string {
		if n := len(items(t, namespace, "pods", "-l", "app="+name)); n > 0 {
			return fmt.Sprint(n)
		}
		return ""
	})
}

// books are what pods were told, and what the table has of them.
type books struct {
	pods, ended                    int // those that began, and said that they ended
	connected, refused             int // connections
	acknowledged, failed           int // transactions
	missing, twice, unacknowledged int // rows: acknowledged and not there; there more than once; there and not acknowledged
	stops, idleStops, openAtStop   int // SIGTERMs, those without an open transaction, open ones at all
	rate                           float64
	first                          []event.Event // some that tell of a failure
}

func (b books) String() string {
	return fmt.Sprintf("%d pods, %d connections, %d refused; %d transactions acknowledged (%.0f/s), %d missing, %d twice; %d failed, %d rows besides; %d SIGTERMs with %d transactions open",
		b.pods, b.connected, b.refused, b.acknowledged, b.rate, b.missing, b.twice, b.failed, b.unacknowledged, b.stops, b.openAtStop)
}

// readLedger compares what the pods of a name were told with the table.
func readLedger(t *testing.T, prefix string) books {
	t.Helper()
	var b books
	acknowledged := make(map[string]bool)
	events := world.ledger.Events(prefix)
	for _, e := range events {
		switch e.Kind {
		case event.Start:
			b.pods++
		case event.End:
			b.ended++
		case event.Connected:
			b.connected++
		case event.Acknowledged:
			b.acknowledged++
			acknowledged[fmt.Sprint(e.Writer, " ", e.N)] = true
		case event.Terminated:
			b.stops++
			b.openAtStop += e.N
			if e.N == 0 {
				b.idleStops++
			}
		case event.Failed, event.NoConnection:
			if e.Kind == event.Failed {
				b.failed++
			} else {
				b.refused++
			}
			if len(b.first) < 5 {
				b.first = append(b.first, e)
			}
		}
	}
	if len(events) > 1 {
		b.rate = float64(b.acknowledged) / events[len(events)-1].At.Sub(events[0].At).Seconds()
	}
	rows := ask(t, "SELECT writer || ' ' || n, count(*) FROM ledger WHERE writer LIKE '"+prefix+"%' GROUP BY writer, n")
	for _, row := range rows {
		if row[1] != "1" {
			b.twice++
		}
		if !acknowledged[row[0]] {
			b.unacknowledged++
		}
		delete(acknowledged, row[0])
	}
	b.missing = len(acknowledged)
	return b
}

// expectWhole: nothing failed, nothing is missing, nothing is there twice, and all of it
// was tried.
func (b books) expectWhole(t *testing.T) {
	t.Helper()
	if b.refused+b.failed+b.missing+b.twice+b.unacknowledged > 0 || b.ended != b.pods {
		t.Errorf("%v; %d of %d pods said that they ended; %+v", b, b.ended, b.pods, b.first)
	}
	if b.rate < 50 || b.idleStops > 0 || b.stops != b.pods {
		t.Errorf("too little was tried: %v, %d SIGTERMs without a transaction", b, b.idleStops)
	}
}
