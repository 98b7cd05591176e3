package parse

import (
	"slices"
	"strings"
	"testing"
)

func TestFunctionsAreHarmless(t *testing.T) {
	t.Parallel()
	names := strings.Fields(functions)
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Error("functions.txt is not sorted, or has doubles")
	}
	for _, name := range names {
		if name != strings.ToLower(name) || len(name) > MaxWord || roles[name]&(telltale|StatefulAnywhere) != 0 {
			t.Errorf("%s does not belong into functions.txt", name)
		}
	}
	// What writes, locks, signals, reads files or runs text as SQL; whole families
	// by their prefix.
	for _, bad := range []string{
		"set_config", "nextval", "setval", "currval", "lastval", "setseed", "pg_notify", "lo_", "lowrite", "loread",
		"pg_advisory", "pg_try_advisory", "pg_terminate", "pg_cancel", "pg_reload", "pg_rotate", "pg_promote", "pg_switch",
		"pg_create", "pg_drop", "pg_copy", "pg_replication", "pg_logical", "pg_backup", "pg_import", "pg_export", "pg_read",
		"pg_ls_", "pg_stat_file", "pg_stat_reset", "pg_stat_clear", "pg_log_", "brin_", "gin_", "query_to_", "cursor_to_",
		"table_to_", "schema_to_", "database_to_", "ts_stat", "ts_rewrite", "txid_current", "pg_current_xact_id", "dblink",
		"pg_wal_replay", "pg_nextoid", "binary_upgrade",
	} {
		for _, name := range names {
			allowed := name == "txid_current_if_assigned" || name == "txid_current_snapshot" || name == "pg_current_xact_id_if_assigned"
			if strings.HasPrefix(name, bad) && !allowed {
				t.Errorf("%s is in functions.txt, and has an effect", name)
			}
		}
	}
}

func TestRoleOf(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]WordRole{
		"for": telltale, "FOR": telltale, "Into": telltale, "fo": 0, "fore": 0, "": 0,
		"COUNT": Callable | Harmless, "select": Callable | querying,
		"pg_temp": telltale | StatefulAnywhere, "PG_TEMP_12": telltale | StatefulAnywhere, "pg_advisory_xact_lock": telltale | StatefulAnywhere,
		"pg_tem": 0, "pg_class": 0, strings.Repeat("x", 100): 0, "pg_temp" + strings.Repeat("x", 100): 0,
		"\xe9": 0,
	} {
		if got := RoleOfWord([]byte(word)); got != want {
			t.Errorf("%q: got %b, want %b", word, got, want)
		}
		if got := forcesParse([]byte(word)); got != (want&telltale != 0) {
			t.Errorf("%q: telltale %v", word, got)
		}
	}
}
