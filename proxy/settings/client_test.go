package settings

import (
	"maps"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
	"pgregory.net/rapid"
)

// keptModel is what PostgreSQL does with settings, told anew: for each name the value of
// the session and one until the transaction ends, copied whole at each savepoint.
type keptModel struct {
	session, local map[string]string
}

func (m keptModel) clone() keptModel {
	return keptModel{maps.Clone(m.session), maps.Clone(m.local)}
}

func (m keptModel) value(name string) string {
	for _, of := range []map[string]string{m.local, m.session} {
		if v, ok := of[name]; ok {
			return v
		}
	}
	if name == "application_name" {
		return ""
	}
	return "0"
}

func (m keptModel) set(name, value string, local bool) {
	if local {
		m.local[name] = value
		return
	}
	delete(m.local, name)
	m.session[name] = value
}

// Kept settings are what PostgreSQL would have in force, through commits, rollbacks,
// savepoints, SET LOCAL and resets; and the client knows its application_name.
func TestKeptSettings(t *testing.T) {
	names := []string{"application_name", "statement_timeout", "idle_in_transaction_session_timeout"}
	rapid.Check(t, func(t *rapid.T) {
		c := NewClient(NewTreatments(true, false, nil), &InternTable{})
		startup := NewValues(map[string]string{})
		startup.StartupLocal = map[string]string{"application_name": "app", "statement_timeout": "7s"}
		if err := c.ApplyStartup(startup); err != nil {
			t.Fatal(err)
		}
		now := keptModel{maps.Clone(startup.StartupLocal), map[string]string{}}
		begun := now.clone()
		type savepoint struct {
			name string
			was  keptModel
		}
		var marks []savepoint
		known := "app"
		find := func(name string) int {
			for i := len(marks) - 1; i >= 0; i-- {
				if marks[i].name == name {
					return i
				}
			}
			return -1
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			value := rapid.SampledFrom([]string{"1s", "2s", "3s"}).Draw(t, "value")
			local := rapid.Bool().Draw(t, "local")
			point := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "savepoint")
			switch rapid.IntRange(0, 8).Draw(t, "what") {
			case 0, 1, 2:
				if err := c.StoreLocal(name, value, local); err != nil {
					t.Fatal(err)
				}
				now.set(name, value, local)
			case 3:
				if err := c.ResetLocalToStartup(name, local); err != nil {
					t.Fatal(err)
				}
				value, ok := startup.StartupLocal[name]
				if !ok && name != "application_name" {
					value = "0"
				}
				now.set(name, value, local)
			case 4:
				c.ResetAllLocal()
				now.local, now.session = map[string]string{}, maps.Clone(startup.StartupLocal)
			case 5:
				c.SetSavepoint(point)
				marks = append(marks, savepoint{point, now.clone()})
			case 6:
				c.ReleaseSavepoint(point)
				if i := find(point); i >= 0 {
					marks = marks[:i]
				}
			case 7:
				c.RollBackTo(point)
				if i := find(point); i >= 0 {
					now, marks = marks[i].was.clone(), marks[:i+1]
				}
			case 8:
				if failed := rapid.Bool().Draw(t, "failed"); failed {
					c.Rollback()
					now = begun
				} else {
					c.Commit()
					c.EndLocalChanges(false)
					clear(now.local)
				}
				begun, marks = now.clone(), nil
				for _, p := range c.TakeReports('I') {
					if p.Name == "application_name" {
						known = p.Value
					}
				}
				if known != now.value("application_name") {
					t.Fatalf("the client knows application_name as %q, it is %q", known, now.value("application_name"))
				}
			}
			for _, name := range names {
				if got, want := c.ShownValue(name), now.value(name); got != want {
					t.Fatalf("%s is %q, want %q", name, got, want)
				}
			}
			if got := c.StatementTimeout().Seconds(); now.value("statement_timeout") != "0" && got != float64(now.value("statement_timeout")[0]-'0') {
				t.Fatalf("statement_timeout is %vs, want %s", got, now.value("statement_timeout"))
			}
		}
	})
}

// What is carried follows the server's transaction, and a snapshot or a progress returns to it.
func TestCarriedSettings(t *testing.T) {
	set := func(name, value string) rewrite.SettingChange {
		return rewrite.SettingChange{Action: rewrite.Set, Name: name, SQL: QuoteLiteral(value), Text: value}
	}
	c := NewClient(NewTreatments(true, false, nil), &InternTable{})
	if err := c.ApplyStartup(NewValues(map[string]string{"timezone": "'UTC'"})); err != nil {
		t.Fatal(err)
	}
	is := func(when, name, want string) {
		t.Helper()
		if got := c.InForce.SQL[name]; got != want {
			t.Errorf("%s: %s is %s, want %s", when, name, got, want)
		}
	}
	c.Stage(set("timezone", "Asia/Tokyo"))
	is("staged", "timezone", "'UTC'")
	c.Rollback()
	c.Commit()
	is("rolled back", "timezone", "'UTC'")

	c.Stage(set("timezone", "Asia/Tokyo"))
	c.Stage(UnseenChange)
	if done, unseen := c.Commit(); len(done) != 1 || !unseen {
		t.Errorf("Commit is %v, %v: want one change, and one unseen", done, unseen)
	}
	is("committed", "timezone", "'Asia/Tokyo'")

	stood := c.Snapshot()
	if err := c.ResetSetting("timezone"); err != nil {
		t.Fatal(err)
	}
	is("reset", "timezone", "'UTC'")
	if undone := c.ValuesIfFailed(); undone == nil || undone.SQL["timezone"] != "'Asia/Tokyo'" {
		t.Errorf("a failed block has back %v, want Asia/Tokyo", undone)
	}
	c.RestoreAll(stood)
	is("restored", "timezone", "'Asia/Tokyo'")

	c.Stage(set("datestyle", "SQL"))
	p := c.TxProgress()
	c.SetSavepoint("a")
	c.Stage(set("datestyle", "DMY"))
	c.RestoreProgress(p)
	c.Stage(set("datestyle", "YMD"))
	c.Commit()
	is("sent again", "datestyle", "'SQL, YMD'")
}
