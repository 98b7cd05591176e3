package lease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-proxy/sluice/metrics"
)

// refusals are what AWS answers, and what each means.
var refusals = []struct {
	path, code string
	status     int
	cause      string
}{
	{"denied", "AccessDeniedException", 400, metrics.CauseAccessDenied},
	{"expired", "ExpiredTokenException", 400, metrics.CauseCredentials},
	{"unknown", "UnrecognizedClientException", 400, metrics.CauseCredentials},
	{"signature", "InvalidSignatureException", 400, metrics.CauseCredentials},
	{"missing", "ResourceNotFoundException", 400, metrics.CauseTableMissing},
	{"throttled", "ThrottlingException", 400, metrics.CauseThrottled},
	{"provisioned", "ProvisionedThroughputExceededException", 400, metrics.CauseThrottled},
	{"requests", "RequestLimitExceeded", 400, metrics.CauseThrottled},
	{"internal", "InternalServerError", 500, metrics.CauseServerError},
	{"invalid", "ValidationException", 400, metrics.CauseOther},
}

// The SDK's errors, whatever they look like, have the cause, the code, the table and
// the region.
func TestCauseOfAFailedCall(t *testing.T) {
	t.Parallel()
	hang, arrived := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.Trim(r.URL.Path, "/")
		for _, refusal := range refusals {
			if path == refusal.path {
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				w.WriteHeader(refusal.status)
				fmt.Fprintf(w, `{"__type":"com.amazon.coral.service#%s","message":"arn:aws:sts::123456789012:assumed-role/secret"}`, refusal.code)
				return
			}
		}
		switch path {
		case "hang":
			arrived <- struct{}{}
			<-hang
		case "cut":
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	defer close(hang)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	check := func(table *Table, name, cause, code string) {
		t.Helper()
		defer table.Close()
		calls := map[string]func(ctx context.Context) error{
			"read": func(ctx context.Context) error { _, err := table.Look(ctx, 0); return err },
			"write": func(ctx context.Context) error {
				_, _, err := table.Change(ctx, ShardChange{Owner: "o", New: "n"})
				return err
			},
		}
		for kind, try := range calls {
			ctx := newExpiring(t)
			go func() {
				select {
				case <-arrived:
					ctx.end()
				case <-ctx.Done():
				}
			}()
			e, ok := errors.AsType[*TableError](try(ctx))
			ctx.end()
			if !ok || e.Cause != cause || e.Code != code || e.Table != "leases" || e.Region != "us-east-1" {
				t.Errorf("%s of %s: %+v; want cause %s, code %s", kind, name, e, cause, code)
				continue
			}
			if p := newProblem(&storeCall{kind: callLook}, e); p.Remedy == "" || strings.Contains(p.Error(), "123456789012") {
				t.Errorf("%s of %s: %q", kind, name, p)
			}
		}
	}
	cfg := worldConfig()
	for _, refusal := range refusals {
		check(tableAt(cfg, server.URL+"/"+refusal.path), refusal.path, refusal.cause, refusal.code)
	}
	check(tableAt(cfg, server.URL+"/hang"), "hang", metrics.CauseTimeout, "")
	check(tableAt(cfg, server.URL+"/cut"), "cut", metrics.CauseUnreachable, "")
	check(tableAt(cfg, "http://"+closed.Addr().String()), "closed", metrics.CauseUnreachable, "")
	check(tableAt(cfg, "http://nobody.invalid"), "no such host", metrics.CauseUnreachable, "")
	check(tableAt(cfg, server.URL+"/else"), "503", metrics.CauseServerError, "")
	url := server.URL
	check(NewTable(cfg, aws.Config{Region: "us-east-1", BaseEndpoint: &url,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("the token file is gone")
		}),
	}), "no credentials", metrics.CauseCredentials, "")
}

// A table that is deleted under a running sidecar is named, with what to do.
func TestDeletedTableIsNamed(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	cfg.Table = "deleted"
	table := newTable(t, cfg)
	if _, err := table.api.DeleteTable(shortly(t), &dynamodb.DeleteTableInput{TableName: &cfg.Table}); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 100 { // it takes a moment
		if _, err = table.Look(shortly(t), 0); err != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	p := newProblem(&storeCall{kind: callLook}, err)
	if want := "looking at slots of others failed: ResourceNotFoundException, table deleted in us-east-1: run sluice lease init"; !strings.HasPrefix(p.Error(), want) {
		t.Errorf("got %q, want %q", p, want)
	}
}

// broken is a table that answers with an error, if one is set.
type broken struct {
	*memory
	err atomic.Pointer[error]
}

func (b *broken) fault() error {
	time.Sleep(5 * time.Millisecond)
	if err := b.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (b *broken) Settings(ctx context.Context) (Settings, TableTime, error) {
	if err := b.fault(); err != nil {
		return Settings{}, TableTime{}, err
	}
	return b.memory.Settings(ctx)
}

func (b *broken) Look(ctx context.Context, shard int) (Shard, error) {
	if err := b.fault(); err != nil {
		return Shard{}, err
	}
	return b.memory.Look(ctx, shard)
}

func (b *broken) Change(ctx context.Context, c ShardChange) (Shard, bool, error) {
	if err := b.fault(); err != nil {
		return Shard{}, false, err
	}
	return b.memory.Change(ctx, c)
}

func (b *broken) Reserve(ctx context.Context, r Reservation) (int64, bool, TableTime, error) {
	if err := b.fault(); err != nil {
		return 0, false, TableTime{}, err
	}
	return b.memory.Reserve(ctx, r)
}

// Whatever makes a lease fail while it runs: each change of its phase tells why, and
// so do its state and its metric. What does not pass by itself is told at once.
func TestCauseIsToldWhileTheLeaseFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err       error
		cause     string
		atOnce    bool
		inTheLine []string
	}{
		{&TableError{Cause: metrics.CauseTableMissing, Code: "ResourceNotFoundException", Table: "leases", Region: "eu-west-1", Err: errLost},
			metrics.CauseTableMissing, true, []string{"ResourceNotFoundException", "problem.table=leases", "problem.region=eu-west-1", "sluice lease init"}},
		{&TableError{Cause: metrics.CauseAccessDenied, Code: "AccessDeniedException", Table: "leases", Region: "eu-west-1", Err: errLost},
			metrics.CauseAccessDenied, true, []string{"AccessDeniedException", "problem.table=leases", "dynamodb:UpdateItem"}},
		{&TableError{Cause: metrics.CauseCredentials, Code: "ExpiredTokenException", Table: "leases", Region: "eu-west-1", Err: errLost},
			metrics.CauseCredentials, true, []string{"ExpiredTokenException", "renew the credentials"}},
		{&TableError{Cause: metrics.CauseThrottled, Code: "ThrottlingException", Table: "leases", Region: "eu-west-1", Err: errLost},
			metrics.CauseThrottled, false, []string{"ThrottlingException"}},
		{context.DeadlineExceeded, metrics.CauseTimeout, false, []string{"look at the network"}},
	} {
		t.Run(test.cause, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := worldConfig()
				table := &broken{memory: newMemory(cfg.tableSettings(), time.Now)}
				r := newRigOn(t, cfg, table)
				permits := r.admit(t, 10)
				time.Sleep(cfg.Heartbeat)
				if p := r.State().Problem; p != nil || r.State().ShortfallReason() != nil || r.Gauges().Problem != "" {
					t.Fatalf("before: %v", p)
				}
				table.err.Store(&test.err)
				time.Sleep(cfg.Heartbeat * 3 / 2)
				if s := r.State(); s.Phase != OK || s.Problem == nil || s.Problem.Cause != test.cause || s.Problem.Step != "renewing the lease" ||
					s.ShortfallReason() != nil || r.Gauges().Problem != test.cause {
					t.Errorf("after a heartbeat and a half: %+v", s)
				}
				if got := strings.Count(r.log.String(), "every backend will close unless somebody acts"); got != map[bool]int{true: 1}[test.atOnce] {
					t.Errorf("warned of %d times:\n%s", got, r.log.String())
				}
				for r.State().Phase != Lost {
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(2 * time.Second)
				if err := r.State().ShortfallReason(); err == nil || !errors.Is(err, test.err) {
					t.Errorf("lost, and the trouble is %v", err)
				}
				for _, phase := range []string{"phase=degraded", "phase=draining", "phase=lost"} {
					lines := slices.DeleteFunc(strings.Split(r.log.String(), "\n"), func(line string) bool { return !strings.Contains(line, phase) })
					if len(lines) != 1 {
						t.Fatalf("%d lines with %s:\n%s", len(lines), phase, r.log.String())
					}
					for _, want := range append(test.inTheLine, "problem.cause="+test.cause, `problem.step="renewing the lease"`) {
						if !strings.Contains(lines[0], want) {
							t.Errorf("%s is not in %s", want, lines[0])
						}
					}
				}
				for _, p := range permits {
					p.Release()
				}
				table.err.Store(nil)
				again := r.admit(t, 1)
				if s := r.State(); s.Phase != OK || s.Problem != nil || r.Gauges().Problem != "" {
					t.Errorf("back again: %+v", s)
				}
				again[0].Release()
				r.end(t)
			})
		})
	}
}

// Where only the rate is shared nothing closes: the warning does not say so. A cause
// that changes all the time is warned of once a heartbeat.
func TestWarningOfALeaseOfTheRateAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := worldConfig()
		cfg.Slots = false
		table := &broken{memory: newMemory(cfg.tableSettings(), time.Now)}
		r := newRigOn(t, cfg, table)
		r.admit(t, 1)
		errs := []error{&TableError{Cause: metrics.CauseAccessDenied, Err: errLost}, &TableError{Cause: metrics.CauseCredentials, Err: errLost}}
		table.err.Store(&errs[0])
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		flapped := make(chan struct{})
		go func() {
			defer close(flapped)
			for i := 0; ctx.Err() == nil; i++ {
				table.err.Store(&errs[i%2])
				time.Sleep(150 * time.Millisecond)
			}
		}()
		for ctx.Err() == nil {
			_, _ = r.Admit(ctx, 20)
		}
		<-flapped
		text := r.log.String()
		if n := strings.Count(text, "the lease table refuses this process"); n < 2 || n > 21 || strings.Contains(text, "will close") {
			t.Errorf("warned of %d times in 20 s:\n%s", n, text)
		}
		table.err.Store(nil)
		r.end(t)
	})
}

// A right to write is not there because reads succeed, nor a table because another
// is; a write that succeeds ends what failed at its table, and any success what
// concerns all calls.
func TestTroubles(t *testing.T) {
	t.Parallel()
	denied := &TableError{Cause: metrics.CauseAccessDenied, Err: errLost}
	for _, test := range []struct {
		failed, succeeded storeCallKind
		err               error
		apart, left       bool
	}{
		{callChange, callLook, denied, false, true},
		{callChange, callSettings, denied, false, true},
		{callLook, callChange, denied, false, false},
		{callChange, callChange, denied, false, false},
		{callReserve, callChange, denied, false, false},
		{callReserve, callChange, denied, true, true},
		{callReserve, callReserve, denied, true, false},
		{callChange, callLook, context.DeadlineExceeded, false, false},
		{callReserve, callChange, context.DeadlineExceeded, true, false},
	} {
		var ts problemsByKind
		ts.recordOutcome(&storeCall{kind: test.failed, part: &ownRecord{}}, test.err, test.apart)
		if ts.worst() == nil {
			t.Fatal("no trouble")
		}
		ts.recordOutcome(&storeCall{kind: test.succeeded, part: &ownRecord{}}, nil, test.apart)
		if left := ts.worst() != nil; left != test.left {
			t.Errorf("%+v: trouble left: %v", test, left)
		}
	}
	var ts problemsByKind
	ts.recordOutcome(&storeCall{kind: callLook}, context.DeadlineExceeded, false)
	ts.recordOutcome(&storeCall{kind: callChange, part: &ownRecord{}}, denied, false)
	if p := ts.worst(); p.Cause != metrics.CauseAccessDenied {
		t.Errorf("%v is the worst", p)
	}
}

// Each cause has a remedy, and each that a table can have is one of the metric's.
func TestCausesAreBounded(t *testing.T) {
	t.Parallel()
	for _, cause := range metrics.LeaseCauses {
		if remedies[cause] == "" {
			t.Errorf("no remedy for %s", cause)
		}
	}
	for code, cause := range causesByCode {
		if !slices.Contains(metrics.LeaseCauses, cause) {
			t.Errorf("%s has the cause %s", code, cause)
		}
	}
	if _, err := os.Stat("../deploy/iam/lease-sidecar.json"); err != nil {
		t.Error(err) // a remedy names it
	}
}
