package script

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// session answers like one on a cluster of DSQL that has a statement "mine" and on whose backend "sluice_1" is.
type session struct{ treat settings.Treatments }

func (s session) AnswersSettingChange(st *rewrite.Statement) bool { return s.treat.AnswersLocally(st) }
func (session) SetConfigError(*rewrite.Statement) *wire.Error     { return nil }
func (session) OptionError(*rewrite.SettingChange) *wire.Error    { return nil }
func (session) EmulatesDiscardAll(*rewrite.Statement) bool        { return true }
func (session) DiscardAllError(*rewrite.Statement) *wire.Error    { return nil }
func (session) ShowError(string) *wire.Error                      { return nil }
func (session) HasStatement(name string) bool                     { return name == "mine" }
func (session) HasBackendStatement(name string) bool              { return name == "sluice_1" }

var byKind = map[rewrite.LocalWork]Planned{
	rewrite.Sets: (*Planner).PlanSet, rewrite.Shows: (*Planner).PlanShow, rewrite.Begins: (*Planner).PlanBegin, rewrite.SetsModes: (*Planner).PlanSetTransaction,
	rewrite.DiscardsAll: (*Planner).PlanDiscardAll, rewrite.Deallocates: (*Planner).PlanDeallocate, rewrite.DeallocatesAll: (*Planner).PlanDeallocateAll,
	rewrite.Executes: (*Planner).PlanExecute, rewrite.ClosesAll: (*Planner).PlanCloseAll, rewrite.ChecksTables: (*Planner).PlanLockTable, rewrite.SetsConfig: (*Planner).PlanSetConfig,
}

// describe says what happens to each statement.
func describe(p *Plan) string {
	if p == nil {
		return "server"
	}
	var all []string
	for i := range p.Steps {
		switch st := &p.Steps[i]; {
		case st.Err != nil:
			all = append(all, st.Err.Code)
		case st.Local:
			all = append(all, "local")
		case st.SetsConfig:
			all = append(all, "row")
		case st.SQL != "":
			all = append(all, st.SQL)
		default:
			all = append(all, "server")
		}
	}
	return strings.Join(all, "; ")
}

func TestPlans(t *testing.T) {
	planner, err := rewrite.New(rewrite.Config{MaxBytes: 64 << 10, MaxNesting: 100, CacheEntries: 100, CacheBytes: 1 << 20, Rules: rewrite.Rules{Dialect: true, Session: true}})
	if err != nil {
		t.Fatal(err)
	}
	treat := settings.NewTreatments(true, false, nil)
	inBlock := func(s *State) { s.Block, s.Status, s.InBlock = block.FromStatus('T'), 'T', true }
	pinned := func(s *State) { s.Pinned = true }
	inTokyo := func(s *State) {
		startup := settings.NewValues(map[string]string{"timezone": "'Asia/Tokyo'"})
		if err := s.Settings.ApplyStartup(startup); err != nil {
			t.Fatal(err)
		}
	}
	portals := func(s *State) { s.HasPortals = true }
	for _, test := range []struct {
		sql, want string
		state     func(*State)
	}{
		{"SELECT 1; SELECT 2", "server", nil},
		{"SET statement_timeout = 5; SELECT 1", "local; server", nil},
		{"SET statement_timeout = 5; SHOW statement_timeout", "local; local", nil},
		{"SET statement_timeout = 'nonsense'; SELECT 1", "22023; server", nil},
		{"SELECT 1; DEALLOCATE mine", "server; local", nil},
		{"DEALLOCATE mine; DEALLOCATE mine", "local; 26000", nil},
		{"DEALLOCATE ALL; DEALLOCATE mine", "local; 26000", nil},
		{"SELECT 1; DEALLOCATE other", "server; 26000", nil},
		{"SELECT 1; DEALLOCATE other", "server", pinned},
		{"SELECT 1; DEALLOCATE sluice_1", "server; 26000", pinned},
		{"SELECT 1; EXECUTE sluice_1", "server; 26000", pinned},
		{"PREPARE other AS SELECT 1; EXECUTE other", "server", nil},
		{"SELECT 1; EXECUTE sluice_2", "server; 26000", nil},
		{"SELECT 1; EXECUTE sluice_2", "server", pinned},
		{"SELECT 1; CLOSE ALL", "server; local", nil},
		{"SELECT 1; CLOSE ALL", "server; local", portals},
		{"BEGIN; CLOSE ALL", "server; 0A000", portals},
		{"SELECT 1; DISCARD ALL", "server; 25001", nil},
		{"BEGIN; SET TRANSACTION READ ONLY; SELECT 1", "BEGIN READ ONLY; local; server", nil},
		{"BEGIN; SET TRANSACTION READ ONLY; SELECT 1", "server", inBlock},
		{"SET TimeZone TO 'UTC'; RESET TimeZone; SELECT 1", "server; SET timezone TO 'Asia/Tokyo'; server", inTokyo},
		{"SELECT 1; RESET TimeZone", "server; local", nil},
		{"SELECT set_config('TimeZone', 'UTC', false); SELECT 1", "row; server", nil},
	} {
		c := settings.NewClient(treat, &settings.InternTable{})
		state := State{Block: block.FromStatus('I'), Status: 'I', Settings: &c, Access: &access.Turn{}, Treatments: treat, IsDSQL: true}
		if test.state != nil {
			test.state(&state)
		}
		plan := planner.Plan([]byte(test.sql))
		got := New(session{treat}, &state, plan, []byte(test.sql), func(st *rewrite.Statement) Planned { return byKind[st.Does] })
		if d := describe(got); d != test.want {
			t.Errorf("%s: %s, want %s", test.sql, d, test.want)
		}
		if got != nil && got.AnswersAll() != !strings.Contains(test.want, "server") && !strings.Contains(test.want, "BEGIN") {
			t.Errorf("%s: AnswersAll is %v", test.sql, got.AnswersAll())
		}
	}
}

// The server's answer to a substitute has the tag of the substitute, and no answer to one that must fail.
func TestSubstitutes(t *testing.T) {
	failing, local, set, plain := Step{Err: &wire.Error{}}, Step{Local: true}, Step{SQL: "SET x TO 1", Tag: []byte("RESET")}, Step{Warn: true}
	p := Plan{Steps: []Step{failing, local, set, plain, {SetsConfig: true}}}
	for i, tags := range []string{"", "SHOW", "SET", "SHOW SET BEGIN SELECT", "SET"} {
		for _, tag := range []string{"SHOW", "SET", "BEGIN", "SELECT"} {
			if got, want := p.Steps[i].MatchesTag(tag), strings.Contains(tags, tag); got != want {
				t.Errorf("step %d, tag %s: %v", i, tag, got)
			}
		}
	}
	got := fmt.Sprint(p.Substitutes())
	want := fmt.Sprint([]rewrite.Substitute{rewrite.FailingSubstitute, rewrite.AnsweredSubstitute, {SQL: "SET x TO 1"}, {}, {}})
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i, want := range []bool{true, true, true, false, false} {
		if p.ChangesText(i) != want {
			t.Errorf("step %d changes the text: %v", i, !want)
		}
	}
}
