package rewrite

import (
	"reflect"
	"strings"
	"testing"
)

// CREATE DATABASE and DROP DATABASE of a name that stands for a schema are left to the relay,
// with all rules and with no other; those of any other name are what they were.
func TestDatabasesThatAreSchemas(t *testing.T) {
	t.Parallel()
	of := func(name string) (string, bool) { return "s_" + name, strings.HasPrefix(name, "app") }
	for _, rules := range []Rules{{SchemaOf: of}, func() Rules { r := AllRules(); r.SchemaOf = of; return r }()} {
		planner, err := New(Config{MaxBytes: 1 << 20, MaxNesting: 100, CacheEntries: 10, CacheBytes: 1 << 20, Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		for sql, want := range map[string]*Database{
			"CREATE DATABASE app":                                       {Name: "app", Schema: "s_app"},
			"create database App_2 -- two":                              {Name: "app_2", Schema: "s_app_2"},
			`CREATE DATABASE "app-3"`:                                   {Name: "app-3", Schema: "s_app-3"},
			"CREATE DATABASE app WITH TEMPLATE DEFAULT":                 {Name: "app", Schema: "s_app"},
			"CREATE DATABASE app ENCODING = 'utf-8' TEMPLATE template0": {Name: "app", Schema: "s_app"},
			"DROP DATABASE app":                                         {Name: "app", Schema: "s_app", Drop: true},
			"DROP DATABASE IF EXISTS app WITH (FORCE)":                  {Name: "app", Schema: "s_app", Drop: true, IfExists: true, Force: true},
			"CREATE DATABASE other":                                     nil,
			"DROP DATABASE other":                                       nil,
			`CREATE DATABASE "APP"`:                                     nil,
		} {
			plan := planner.Plan([]byte(sql))
			st := plan.Single()
			if !reflect.DeepEqual(st.Database, want) {
				t.Errorf("%s: %+v, want %+v", sql, st.Database, want)
			}
			if want != nil && (st.Refusal != nil || st.Tag != "" || plan.Text != "" || plan.Kind != DDL || !plan.Answerable()) {
				t.Errorf("%s: %+v, %q", sql, st, plan.Text)
			}
		}
		for _, option := range []string{"OWNER me", "ENCODING 'LATIN1'", "TEMPLATE other", "LC_COLLATE 'C'", "CONNECTION LIMIT 3"} {
			st := planner.Plan([]byte("CREATE DATABASE app " + option)).Single()
			name, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(option, "CONNECTION LIMIT", "connection_limit")), " ")
			if st.Database != nil || st.Refusal == nil || st.Refusal.Code != "0A000" || !strings.Contains(st.Refusal.Message, `"`+name+`"`) {
				t.Errorf("%s: %+v, %+v", option, st.Database, st.Refusal)
			}
		}
	}
}
