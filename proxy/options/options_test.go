package options

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

const (
	policy   = rewrite.OwnPrefix + rewrite.InTransactionsKey
	carryOut = rewrite.OwnPrefix + rewrite.CarryOutKey
	wait     = rewrite.OwnPrefix + rewrite.CreateIndexWaitKey
)

// bench is a client with its settings, in a process where clients may set two keys and one user has an option.
type bench struct {
	planner  *rewrite.Planner
	rules    *Rules
	settings settings.Client
	client   Client
	block    BlockOptions
	fixed    bool
}

func newBench(t *testing.T, user string, startup map[string]string) *bench {
	t.Helper()
	planner, err := rewrite.New(rewrite.Config{MaxBytes: 64 << 10, MaxNesting: 100, CacheEntries: 100, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	users := map[string]rewrite.ClientOptions{"migrator": rewrite.ClientOptions{}.WithOption(rewrite.CreateIndexWaitKey, "false").WithOption(rewrite.CarryOutKey, "all")}
	b := &bench{planner: planner, rules: NewRules(planner, []string{rewrite.InTransactionsKey, rewrite.CarryOutKey}, users)}
	b.settings = settings.NewClient(settings.NewTreatments(true, false, nil), &settings.InternTable{})
	values := settings.NewValues(map[string]string{})
	values.StartupLocal = startup
	if err := b.settings.ApplyStartup(values); err != nil {
		t.Fatal(err)
	}
	b.client = b.rules.NewClient(user)
	return b
}

func (b *bench) current() *rewrite.ClientOptions {
	if now := b.block.Values(); now != nil {
		return now
	}
	return b.settings.Options()
}

func (b *bench) state() *State {
	return &State{Settings: &b.settings, Block: &b.block, Current: b.current(), Policy: b.client.Planner(b.current()).InTransactions(), PolicyFixed: b.fixed}
}

// change returns the change of the single SET or RESET in sql.
func (b *bench) change(t *testing.T, sql string) *rewrite.SettingChange {
	t.Helper()
	st := b.planner.Plan([]byte(sql)).SingleStatement()
	if st == nil || len(st.Changes) != 1 {
		t.Fatalf("%s: no change of one setting", sql)
	}
	return &st.Changes[0]
}

func (b *bench) set(t *testing.T, sql string) (*Choice, *wire.Error) {
	t.Helper()
	set, err := b.client.Set(b.change(t, sql), b.state())
	if err == nil {
		return set, nil
	}
	var bad *wire.Error
	if !errors.As(err, &bad) {
		t.Fatalf("%s: %v", sql, err)
	}
	return set, bad
}

func (b *bench) shows(t *testing.T, name, want string) {
	t.Helper()
	if got, err := b.client.Shown(name, b.current(), true); err != nil || got != want {
		t.Errorf("SHOW %s: %q, %v, want %q", name, got, err, want)
	}
}

// The error of a SET is of its name, then of the permission, then of the value. After an error nothing has changed.
func TestRefusedChanges(t *testing.T) {
	for _, test := range []struct{ sql, code, message string }{
		{"SET sluice.nothing = 'a'", "42704", `unrecognized configuration parameter "sluice.nothing"`},
		{"RESET sluice.nothing", "42704", `unrecognized configuration parameter "sluice.nothing"`},
		{"SET sluice.retry = off", "55P02", `parameter "sluice.retry" cannot be set after connection start`},
		{"SET " + wait + " = 'nonsense'", "42501", `permission denied to set parameter "` + wait + `"`},
		{"RESET " + wait, "42501", `permission denied to set parameter "` + wait + `"`},
		{"SET " + wait + " = a, b", "42501", `permission denied to set parameter "` + wait + `"`},
		{"SET " + carryOut + " = 'some'", "22023", `invalid value for parameter "` + carryOut + `": "some"`},
		{"SET " + carryOut + " = ''", "22023", `invalid value for parameter "` + carryOut + `": ""`},
		{"SET " + carryOut + " = a, b", "22023", "SET " + carryOut + " takes only one argument"},
	} {
		b := newBench(t, "app", nil)
		set, err := b.set(t, test.sql)
		if set != nil || err == nil || err.Code != test.code || err.Message != test.message {
			t.Errorf("%s: %v, %v", test.sql, set, err)
		}
		if b.settings.Options() != nil {
			t.Errorf("%s changes options", test.sql)
		}
	}
}

// SET, SET LOCAL, RESET and the end of the transaction decide about the planner and about SHOW.
func TestChanges(t *testing.T) {
	b := newBench(t, "app", map[string]string{carryOut: "exact"})
	before := b.client.Planner(b.current())
	b.shows(t, policy, "refuse")

	set, err := b.set(t, "SET "+policy+" = 'AUTOCOMMIT'")
	if err != nil || set.Key != rewrite.InTransactionsKey || set.Loss == nil || set.Loss.Code != "00000" || !strings.HasPrefix(set.Loss.Message, "ddl.in_transactions is autocommit for this client: ") {
		t.Fatalf("%+v, %v", set, err)
	}
	b.shows(t, policy, "autocommit")
	now := b.client.Planner(b.current())
	if now == before || now.InTransactions() != rewrite.CommitDDL || now != b.client.LastPlanner() {
		t.Error("the option does not decide about the planner")
	}
	b.settings.EndLocalChanges(false)
	b.shows(t, policy, "autocommit")

	if set, err := b.set(t, "SET LOCAL "+carryOut+" = 'all'"); err != nil || set.Loss == nil {
		t.Fatalf("%+v, %v", set, err)
	}
	b.shows(t, carryOut, "all")
	b.settings.EndLocalChanges(false)
	b.shows(t, carryOut, "exact")

	for _, sql := range []string{"RESET " + policy, "SET " + policy + " TO DEFAULT"} {
		if set, err := b.set(t, sql); set != nil || err != nil {
			t.Fatalf("%s: %v, %v", sql, set, err)
		}
		b.shows(t, policy, "refuse")
		b.settings.EndLocalChanges(true)
		b.shows(t, policy, "autocommit")
	}
	if set, err := b.set(t, "SET "+carryOut+" = exact"); err != nil || set.Loss != nil {
		t.Errorf("%+v, %v: the value weakens nothing", set, err)
	}
}

// The first statement of a block settles how the block is committed. Other options can change later.
func TestFixedPolicy(t *testing.T) {
	b := newBench(t, "app", nil)
	b.fixed = true
	if set, err := b.set(t, "SET "+policy+" = autocommit"); set != nil || err == nil || err.Code != "25001" {
		t.Errorf("%v, %v", set, err)
	}
	for _, sql := range []string{"SET " + policy + " = refuse", "RESET " + policy, "SET " + carryOut + " = exact"} {
		if _, err := b.set(t, sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// A user has the configured options, which the client's own override.
func TestUsers(t *testing.T) {
	b := newBench(t, "migrator", map[string]string{policy: "autocommit", carryOut: "exact"})
	b.shows(t, carryOut, "exact")
	b.shows(t, wait, "false")
	var keys, losses []string
	for _, set := range b.client.StartupChoices(b.settings.Options()) {
		if keys = append(keys, set.Key); set.Loss != nil {
			losses = append(losses, set.Key)
		}
	}
	if want := []string{rewrite.CarryOutKey, rewrite.InTransactionsKey, rewrite.CreateIndexWaitKey}; !slices.Equal(keys, want) || !slices.Equal(losses, want[1:2]) {
		t.Errorf("%v, of which %v weaken a guarantee", keys, losses)
	}
	if other := newBench(t, "app", nil); other.client.StartupChoices(other.settings.Options()) != nil {
		t.Error("a client without options has some")
	}
}

func TestRetry(t *testing.T) {
	b := newBench(t, "app", nil)
	for _, replays := range []bool{true, false} {
		if value, err := b.client.Shown(RetrySetting, nil, replays); err != nil || (value == "on") != replays {
			t.Errorf("%q, %v", value, err)
		}
	}
	if _, err := b.client.Shown("sluice.nothing", nil, true); err == nil || err.Code != "42704" {
		t.Error(err)
	}
	for value, want := range map[string]bool{"on": false, "Off": true, "false": true, "1": false} {
		if off, err := ParseRetry(value); err != nil || off != want {
			t.Errorf("%s: %v, %v", value, off, err)
		}
	}
	if _, err := ParseRetry("maybe"); err == nil || !err.Fatal || err.Code != "22023" {
		t.Error(err)
	}
}

// After an early commit the options of a block are a copy, which RESET and ROLLBACK TO change.
func TestBlockOptions(t *testing.T) {
	b := newBench(t, "app", nil)
	if b.block.RecordResetAll(&rewrite.ClientOptions{}); b.block.Values() != nil {
		t.Error("a reset makes options of a block")
	}
	b.set(t, "SET LOCAL "+policy+" = autocommit")
	b.block.Keep(b.current())
	b.settings.EndLocalChanges(false)
	b.shows(t, policy, "autocommit")
	savepoint := b.block
	b.set(t, "SET "+carryOut+" = 'all'")
	b.shows(t, carryOut, "all")
	b.block = savepoint
	b.shows(t, carryOut, "exact")
	b.block.RecordResetAll(nil)
	b.shows(t, policy, "refuse")
	startup := rewrite.ClientOptions{}.WithOption(rewrite.InTransactionsKey, "autocommit")
	b.block.RecordResetAll(&startup)
	b.shows(t, policy, "autocommit")
}

func TestRan(t *testing.T) {
	planner := newBench(t, "app", nil).planner
	for _, test := range []struct {
		sql  string
		want Ran
	}{
		{"BEGIN", false}, {"SET sluice.x = 1", false}, {"BEGIN; SET sluice.x = 1", false}, {"RESET sluice.x", false},
		{"SELECT 1", true}, {"SET timezone = 'UTC'", true}, {"SELECT 1; COMMIT", false}, {"COMMIT; SELECT 1", true},
		{"SAVEPOINT a", true}, {"ROLLBACK", false}, {"no SQL", true},
	} {
		var ran Ran
		if ran.Record(planner.Plan([]byte(test.sql))); ran != test.want {
			t.Errorf("%s: %v, want %v", test.sql, ran, test.want)
		}
	}
}
