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
		for sql, want := range map[string]*DatabaseChange{
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
			st := plan.SingleStatement()
			if !reflect.DeepEqual(st.Database, want) {
				t.Errorf("%s: %+v, want %+v", sql, st.Database, want)
			}
			if want != nil && (st.Refusal != nil || st.Tag != "" || plan.Text != "" || plan.Kind != DDL || !plan.MayAnswerStatement()) {
				t.Errorf("%s: %+v, %q", sql, st, plan.Text)
			}
		}
		for _, option := range []string{"OWNER me", "ENCODING 'LATIN1'", "TEMPLATE other", "LC_COLLATE 'C'", "CONNECTION LIMIT 3"} {
			st := planner.Plan([]byte("CREATE DATABASE app " + option)).SingleStatement()
			name, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(option, "CONNECTION LIMIT", "connection_limit")), " ")
			if st.Database != nil || st.Refusal == nil || st.Refusal.Code != "0A000" || !strings.Contains(st.Refusal.Message, `"`+name+`"`) {
				t.Errorf("%s: %+v, %+v", option, st.Database, st.Refusal)
			}
		}
	}
}

// A question to information_schema about public is about the schema of the session; nothing
// else is changed.
func TestInSchema(t *testing.T) {
	t.Parallel()
	planner, err := New(Config{MaxBytes: 1 << 20, MaxNesting: 100, CacheEntries: 10, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		"select table_name from information_schema.tables where table_schema='public'":                                                                                                    "select table_name from information_schema.tables where table_schema='it''s'",
		"SELECT 'public' FROM INFORMATION_SCHEMA.Tables t WHERE 'public' = t.TABLE_SCHEMA AND table_name = $1":                                                                            "SELECT 'public' FROM INFORMATION_SCHEMA.Tables t WHERE 'it''s' = t.TABLE_SCHEMA AND table_name = $1",
		"SELECT EXISTS (SELECT 1 FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema) WHERE c.table_schema = 'public' OR (t.table_schema = 'public'))": "SELECT EXISTS (SELECT 1 FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema) WHERE c.table_schema = 'it''s' OR (t.table_schema = 'it''s'))",
		"SELECT 1; SELECT 1 FROM information_schema.tables WHERE table_schema = 'public'":                                                                                                 "SELECT 1; SELECT 1 FROM information_schema.tables WHERE table_schema = 'it''s'",
		"SELECT 1 FROM information_schema.tables WHERE table_schema <> 'public'":                                                                                                          "",
		"SELECT 1 FROM information_schema.tables WHERE table_schema = 'public2'":                                                                                                          "",
		"SELECT 1 FROM information_schema.tables WHERE table_schema = E'public'":                                                                                                          "",
		"SELECT 1 FROM information_schema.tables WHERE table_name = 'public'":                                                                                                             "",
		"SELECT 1 FROM information_schema.tables, mine WHERE table_schema = 'public'":                                                                                                     "",
		"SELECT 1 FROM mine WHERE table_schema = 'public' -- information_schema":                                                                                                          "",
		"INSERT INTO t SELECT 1 FROM information_schema.tables WHERE table_schema = 'public'":                                                                                             "",
		"SELECT 'information_schema, table_schema = ''public'''":                                                                                                                          "",
		"SELECT 1 FROM information_schema.tables WHERE table_schema = 'public' AND":                                                                                                       "",
	} {
		got, changed := planner.AdaptToSchema([]byte(sql), "it's")
		if changed != (want != "") || changed && string(got) != want || !changed && string(got) != sql {
			t.Errorf("%s\n\tis %s", sql, got)
		}
	}
}
