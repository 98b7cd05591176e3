package rewrite

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

func TestSettings(t *testing.T) {
	checkPlans(t, []planCase{
		{"SET a TO 1", "setting set a = 1 (1)"},
		{"SET SESSION a = 'x'", "setting set a = 'x' (x)"},
		{"SET My.Custom = -5", "setting set my.custom = -5 (-5)"},
		{`SET "My"."Custom" = 0.5`, "setting set my.custom = 0.5 (0.5)"},
		{"SET a = 99999999999", "setting set a = 99999999999 (99999999999)"},
		{"SET a = -1e10", "setting set a = -1e10 (-1e10)"},
		{"SET a = on", "setting set a = 'on' (on)"},
		{"SET a = TRUE", "setting set a = 'true' (true)"},
		{"SET a = ''", "setting set a = ''"},
		{"SET a = 'it''s'", "setting set a = 'it''s' (it's)"},
		{`SET a = 'a\b'`, `setting set a = E'a\\b' (a\b)`},
		{`SET a = E'\'\n'`, "setting set a = '''\n' ('\n)"},
		{"SET a = $x$it's$x$", "setting set a = 'it''s' (it's)"},
		{"SET a = Read_Me", "setting set a = 'read_me' (read_me)"},
		{`SET search_path TO "$user", Public, "Mixed, case"`, "setting set search_path = '$user', 'public', 'Mixed, case'"},
		{"SET datestyle = ISO, DMY", "setting set datestyle = 'iso', 'dmy'"},
		{"SET statement_timeout = '5s'", "setting set statement_timeout = '5s' (5s)"},
		{"SET statement_timeout = 0", "setting set statement_timeout = 0 (0)"},

		{"SET TIME ZONE 'UTC'", "setting set timezone = 'UTC' (UTC)"},
		{"SET TIME ZONE utc", "setting set timezone = 'utc' (utc)"},
		{"SET TIME ZONE -7", "setting set timezone = -7 (-7)"},
		{"SET TIME ZONE 5.5", "setting set timezone = 5.5 (5.5)"},
		{"SET TIME ZONE LOCAL", "setting reset timezone"},
		{"SET TIME ZONE DEFAULT", "setting reset timezone"},
		{"SET TIME ZONE INTERVAL '1' HOUR TO MINUTE", "setting pin:set_config"},
		{"SET TIME ZONE INTERVAL '-03:30' HOUR TO MINUTE", "setting set timezone = 'INTERVAL ''-03:30'''"},
		{"SET TIME ZONE INTERVAL '+5:45'", "setting set timezone = 'INTERVAL ''+5:45'''"},
		{"SET TIME ZONE INTERVAL '05:30' HOUR", "setting pin:set_config"},
		{"SET TIME ZONE INTERVAL(0) '05:30'", "setting pin:set_config"},
		{"SET TIME ZONE INTERVAL '1 day 05:30' HOUR TO MINUTE", "setting pin:set_config"},
		{"SET LOCAL TIME ZONE INTERVAL '1' HOUR TO MINUTE", "setting local timezone"},
		{"SET NAMES 'utf8'", "setting set client_encoding = 'utf8' (utf8)"},
		{"SET NAMES DEFAULT", "setting reset client_encoding"},
		{"SET SCHEMA 's'", "setting set search_path = 's' (s)"},
		{"SET XML OPTION DOCUMENT", "setting set xmloption = 'DOCUMENT' (DOCUMENT)"},
		{"SET a FROM CURRENT", "setting pin:set_config"},

		{"SET LOCAL a = 1", "setting local a = 1 (1)"},
		{"SET LOCAL a TO DEFAULT", "setting local a"},
		{"SET LOCAL role = 'x'", "setting local role = 'x' (x)"},
		{"SET LOCAL SESSION AUTHORIZATION x", "setting local session_authorization = 'x' (x)"},
		{"SET LOCAL seed = 0.5", "setting local seed = 0.5 (0.5)"},
		{"SET transaction_read_only = on", "setting local transaction_read_only = 'on' (on)"},
		{"SET transaction_isolation TO 'serializable'", "setting local transaction_isolation = 'serializable' (serializable)"},
		{"SET transaction_deferrable TO DEFAULT", "setting local transaction_deferrable"},
		{"SET LOCAL SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
			"setting characteristics [read only] local default_transaction_read_only = 'on' (on)"},

		{"SET a TO DEFAULT", "setting reset a"},
		{"RESET A.b", "setting reset a.b"},
		{"RESET TIME ZONE", "setting reset timezone"},
		{"RESET ALL", "setting reset all"},
		{"RESET ROLE", "setting reset role"},
		{"RESET SESSION AUTHORIZATION", "setting reset session_authorization"},
		{"SET SESSION AUTHORIZATION DEFAULT", "setting reset session_authorization"},
		{"RESET TRANSACTION ISOLATION LEVEL", "setting local transaction_isolation"},

		{"SET ROLE x", "setting set role = 'x' (x) pin:role"},
		{"SET ROLE NONE", "setting set role = 'none' (none)"},
		{"SET role TO 'x'", "setting set role = 'x' (x) pin:role"},
		{"SET SESSION AUTHORIZATION 'x'", "setting set session_authorization = 'x' (x) pin:role"},
		{"SET seed TO 0.5", "setting set seed = 0.5 (0.5) pin:seed"},
		{"SET search_path = pg_temp, public", "setting set search_path = 'pg_temp', 'public' pin:temp"},
		{"SET standard_conforming_strings = on", "setting set standard_conforming_strings = 'on' (on)"},
		{"SET standard_conforming_strings TO 'off'", "setting set standard_conforming_strings = 'off' (off) pin:set_config"},
	})
}

// assigned is what a SET assigns, value by value, with the type of each.
func assigned(t *testing.T, sql string) []string {
	t.Helper()
	tree, err := parse.Tree(sql)
	if err != nil {
		t.Fatalf("%q: %v", sql, err)
	}
	var all []string
	set := tree.Child("stmts").Child("stmt")
	for arg := range set.List("args") {
		for held := range arg.Children() {
			all = append(all, held.TypeName()+string(held.Wire))
		}
	}
	return all
}

// TestCarriedValues holds that a value written again is the value.
func TestCarriedValues(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"1", "-1", "0", "2147483647", "-2147483648", "2147483648", "0.5", "-.5", "1e-7", "on", "true", "FALSE", "off",
		"''", "'a'", "'it''s'", `'back\slash'`, `E'\\\'\n\t'`, `'\'`, "U&'d\\0061t\\+000061'", "$$dollar$$", "$a$'$a$",
		`"Quoted Name"`, "a, b", `"$user", public`, "'a,b', 'c'", "1, 2.5, x", "'é日本'", "'multi\nline'", "'  '",
		"iso, mdy", "utf8",
	} {
		sql := "SET a TO " + value
		st := parsed(t, sql).SingleStatement()
		if len(st.Changes) != 1 || st.Pin != NoPin {
			t.Errorf("%s: %d changes, pin %d", sql, len(st.Changes), st.Pin)
			continue
		}
		again := "SET a TO " + st.Changes[0].SQL
		if got, want := assigned(t, again), assigned(t, sql); !slices.Equal(got, want) {
			t.Errorf("%s\nwritten as %s\n got  %q\n want %q", sql, again, got, want)
		}
		if strings.Count(value, "\\") > 0 && !strings.Contains(st.Changes[0].SQL, "E'") &&
			strings.Contains(st.Changes[0].SQL, "\\") {
			t.Errorf("%s: a backslash in %s means another thing without standard_conforming_strings", sql, again)
		}
	}
}
