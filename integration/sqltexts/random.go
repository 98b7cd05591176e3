package sqltexts

import (
	"math/rand/v2"
	"strings"
)

// Grammar maps each symbol of an SQL grammar to the texts that may replace it. These texts contain further symbols in
// braces.
var Grammar = map[string][]string{
	"query": {
		"SELECT {list}{from}{where}{tail}", "SELECT {list}{from}{where}{tail}", "VALUES ({list}), ({list})",
		"INSERT INTO {table} VALUES ({list})", "INSERT INTO {table} (a, b) SELECT {list}{from}",
		"UPDATE {table} SET a = {e}, b = {e}{where}", "DELETE FROM {table}{where}",
		"{query}; {query}", "SELECT {list} UNION ALL SELECT {list}", "WITH c AS ({query}) SELECT {list} FROM c",
		"EXPLAIN {query}", "EXPLAIN ANALYZE {query}", "SELECT {list} INTO {table}{from}",
	},
	"from":  {"", "", " FROM {table}", " FROM {table} JOIN {table} ON {e}", " FROM {table}, {call} AS g", " FROM (SELECT {list}) s"},
	"where": {"", "", " WHERE {e}", " WHERE {e} AND ({e} OR {e})"},
	"tail":  {"", "", "", " ORDER BY {e}", " GROUP BY ({e})", " LIMIT {e}", " LIMIT (1)", " FOR UPDATE", ";", " -- end", " WINDOW w AS (ORDER BY {e})"},
	"table": {"t", "s.t", `"t"`, `"S"."t"`, "pg_temp.t", "pg_settings", "pg_catalog.pg_class", "over", "filter"},
	"list":  {"{e}", "{e}, {e}", "{e} AS a, {list}", "*", "{e} case", "{e} end"},
	"e": {
		"1", "1.5", "a", "t.a", `"A"`, "$1", "'it''s'", "E'\\'('", "$$ ( $$", "NULL", "true", "current_date", "lastval", "t.nextval",
		"{e} + {e}", "{e} = {e}", "- {e}", "NOT {e}", "({e})", "({e}, {e})", "{e}::int", "{e}::numeric(10, 2)", "{e} IS NULL",
		"{e} AND {e}", "{e} OR {e}", "{e} IN ({e}, {e})", "{e} BETWEEN {e} AND {e}", "{e} LIKE {e}", "{e} COLLATE \"C\"", "{e}->>'x'",
		"CASE WHEN {e} THEN {e} ELSE {e} END", "CASE {e} WHEN {e} THEN {e} END", "ARRAY[{e}, {e}]", "a[{e}]", "(SELECT {e})", "EXISTS (SELECT {e})",
		"{e} = ANY ({e})", "coalesce({e}, {e})", "cast({e} AS text)", "extract(year FROM {e})", "substring({e} from 1)", "{e} AT TIME ZONE 'UTC'",
		"{call}", "{call}", "({e}).f", "({e}).nextval", "$1.f", "a[1].f", "({e}).setseed", "{e} OPERATOR(pg_catalog.+) {e}", "row({e})", "interval '1' day",
	},
	"call": {
		"count(*)", "sum({e})", "now()", "pg_catalog.lower({e})", "lower ({e})", "count({e}) FILTER (WHERE {e})", "sum({e}) OVER (ORDER BY {e})",
		"rank() over w", "mode() WITHIN GROUP (ORDER BY {e})", "f({e})", `"f"({e})`, `"lower"({e})`, "public.lower({e})", "pg_catalog.f({e})",
		"over({e})", "filter({e})", "f /* ( */ ({e})", "set_config('a', {e}, true)", "pg_catalog.\"set_config\"('a', 'b', false)", "currval('s')",
		"pg_advisory_lock({e})", "pg_try_advisory_xact_lock(1)", "random()", "pg_temp.f()", "nextval({e})", "json_object('a': {e})", "greatest({e}, {e})",
		"join({e})", "left({e}, 1)", "row_to_json({e})", "U&\"\\0066\"({e})", "lastval()", "within({e})", "s.pg_catalog.lower({e})", "pg_catalog({e})",
	},
}

// ExpandGrammar expands a symbol of a grammar, with the forms that pick chooses.
func ExpandGrammar(grammar map[string][]string, symbol string, depth int, pick func(forms []string, symbol string, depth int) string) string {
	form := pick(grammar[symbol], symbol, depth)
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(form, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		b.WriteString(ExpandGrammar(grammar, name, depth+1, pick))
		form = after
	}
}

// RandomText expands a symbol of Grammar at random. Deeper levels use the first, shortest form.
func RandomText(r *rand.Rand, symbol string, depth int) string {
	return ExpandGrammar(Grammar, symbol, depth, func(forms []string, _ string, depth int) string {
		if form := forms[r.IntN(len(forms))]; depth <= 6 {
			return form
		}
		return forms[0]
	})
}
