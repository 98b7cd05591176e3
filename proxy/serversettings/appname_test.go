package serversettings

import "testing"

// TestAppNames plays transactions in which functions and the client set application_name. The startup gave "psql".
func TestAppNames(t *testing.T) {
	type step struct {
		do   string // reports:NAME, set:NAME, local:NAME, commit, rollback
		want string // the client's name afterwards
	}
	for name, steps := range map[string][]step{
		"a function in a block":       {{"reports:batch", "batch"}, {"commit", "batch"}},
		"a function, rolled back":     {{"reports:batch", "batch"}, {"rollback", "psql"}},
		"returned by the function":    {{"reports:batch", "batch"}, {"reports:", "psql"}, {"commit", "psql"}},
		"the client's SET behind it":  {{"reports:batch", "batch"}, {"set:later", "later"}, {"commit", "later"}},
		"two functions":               {{"reports:batch", "batch"}, {"reports:load", "load"}, {"commit", "load"}},
		"SET LOCAL behind it":         {{"reports:batch", "batch"}, {"local:short", "short"}, {"commit", "psql"}},
		"the client alone":            {{"set:later", "later"}, {"commit", "later"}},
		"the client alone, undone":    {{"set:later", "later"}, {"rollback", "psql"}},
		"in the next transaction too": {{"reports:batch", "batch"}, {"commit", "batch"}, {"set:later", "later"}, {"commit", "later"}},
	} {
		v := newTestShared(true)
		b := v.NewBackend(serverParams)
		startup := newTestValues(nil)
		startup.StartupLocal = map[string]string{AppName: "psql"}
		client := v.NewClient()
		of := &client
		if err := of.ApplyStartup(startup); err != nil {
			t.Fatal(err)
		}
		var n AppNames
		for i, s := range steps {
			verb, value := s.do, ""
			for at := range s.do {
				if s.do[at] == ':' {
					verb, value = s.do[:at], s.do[at+1:]
				}
			}
			switch verb {
			case "reports":
				b.RecordParameter(AppName, value)
				if n.MayChange(&b) {
					n.Adopt(&b, of)
				}
			case "set", "local":
				of.StoreLocal(AppName, value, verb == "local")
			case "commit":
				n.Commit(of)
				of.EndLocalChanges(false)
				of.ApplyCommitted(b.AdoptReports(of.InForce, nil, &n))
				b.EndComparison()
				n.EndTransaction(of, false)
			case "rollback":
				b.RecordParameter(AppName, "")
				of.Rollback()
				b.EndComparison()
				n.EndTransaction(of, true)
			}
			if got := of.ShownValue(AppName); got != s.want {
				t.Errorf("%s, step %d (%s): %q, want %q", name, i, s.do, got, s.want)
			}
		}
	}
}
