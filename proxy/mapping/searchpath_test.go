package mapping

import (
	"slices"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

func TestRawPath(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][]string{
		`"$user", public`:         {"$user", "public"},
		`public`:                  {"public"},
		`Public,"Public" , b`:     {"public", "Public", "b"},
		`"a ""b"" c", "d,e"`:      {`a "b" c`, "d,e"},
		`it's, "back\slash"`:      {"it's", `back\slash`},
		`""`:                      {},
		"\tpg_catalog ,\n public": {"pg_catalog", "public"},
	} {
		if got, ok := parseShownPath(value); !ok || !slices.Equal(got, want) {
			t.Errorf("%q: %q (%v), want %q", value, got, ok, want)
		}
	}
}

func TestConstantPath(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string][]string{
		`'$user', 'public'`:        {"$user", "public"},
		`'it''s',E'a\\b', ' c, d'`: {"it's", `a\b`, " c, d"},
		` E'x'`:                    {"x"},
		`''`:                       {},
	} {
		if got, ok := parsePathConstants(sql); !ok || !slices.Equal(got, want) {
			t.Errorf("%s: %q (%v), want %q", sql, got, ok, want)
		}
	}
	for _, sql := range []string{"", "public", "'a", "'a' 'b'", "'a',", "1", `E'a\n'`, `E'a\`} {
		if got, ok := parsePathConstants(sql); ok {
			t.Errorf("%s: read as %q", sql, got)
		}
	}
}

// The path in force is the last that was set, in the transaction or before; nobody knows it
// behind what a function may have set, and behind a role where it names the user's schema.
func TestPathInForce(t *testing.T) {
	t.Parallel()
	usual := []string{"$user", "public"}
	set := func(name, sql string) rewrite.SettingChange { return rewrite.SettingChange{Name: name, SQL: sql} }
	for name, c := range map[string]struct {
		startup, inForce map[string]string
		staged           []rewrite.SettingChange
		want             []string // nil: unknown
	}{
		"nothing set":      {want: []string{"me", "public"}},
		"set":              {inForce: map[string]string{"search_path": "'a', 'b'"}, want: []string{"a", "b"}},
		"set empty":        {inForce: map[string]string{"search_path": "''"}, want: []string{}},
		"staged":           {inForce: map[string]string{"search_path": "'a'"}, staged: []rewrite.SettingChange{set("search_path", "'b'")}, want: []string{"b"}},
		"staged, local":    {staged: []rewrite.SettingChange{{Action: rewrite.SetLocal, Name: "search_path", SQL: "'b'"}}, want: []string{"b"}},
		"local, computed":  {staged: []rewrite.SettingChange{{Action: rewrite.SetLocal, Name: "search_path"}}},
		"reset":            {startup: map[string]string{"search_path": "'s'"}, inForce: map[string]string{"search_path": "'a'"}, staged: []rewrite.SettingChange{{Action: rewrite.Reset, Name: "search_path"}}, want: []string{"s"}},
		"local to default": {inForce: map[string]string{"search_path": "'a'"}, staged: []rewrite.SettingChange{{Action: rewrite.SetLocal, Name: "search_path", Default: true}}, want: []string{"me", "public"}},
		"reset all":        {inForce: map[string]string{"search_path": "'a'"}, staged: []rewrite.SettingChange{{Action: rewrite.ResetAll}}, want: []string{"me", "public"}},
		"a function":       {inForce: map[string]string{"search_path": "'a'"}, staged: []rewrite.SettingChange{settings.UnseenChange}},
		"a function, set":  {staged: []rewrite.SettingChange{settings.UnseenChange, set("search_path", "'b'")}, want: []string{"b"}},
		"set_config":       {inForce: map[string]string{"search_path": "'a'"}, staged: []rewrite.SettingChange{{Action: rewrite.SetLocal}}},
		"another setting":  {staged: []rewrite.SettingChange{set("timezone", "'UTC'")}, want: []string{"me", "public"}},
		"a role":           {inForce: map[string]string{"role": "'r'"}},
		"a role, named":    {inForce: map[string]string{"role": "'r'", "search_path": "'a'"}, want: []string{"a"}},
		"a role, staged":   {staged: []rewrite.SettingChange{set("role", "'r'")}},
	} {
		client := settings.Client{InForce: settings.NewValues(c.inForce), Startup: settings.NewValues(c.startup)}
		for _, change := range c.staged {
			client.Staged.Stage(change)
		}
		got, ok := effectiveSearchPath(&client, "me", usual)
		if ok != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q (%v), want %q", name, got, ok, c.want)
		}
	}
}
