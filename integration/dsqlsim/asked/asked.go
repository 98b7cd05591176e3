// Package asked recognises, by their texts, the queries that Sluice sends to a server by itself. Tests use it to
// inject faults into these queries.
package asked

import (
	"regexp"
	"slices"
	"strings"
)

// questionTexts lists the queries that Sluice sends to a server by itself. Each has its name in Sluice's package
// question, and a pattern of its text.
var questionTexts = []struct {
	name string
	text *regexp.Regexp
}{
	{"groups", regexp.MustCompile(`^SELECT now\(\)$`)},
	{"purity", regexp.MustCompile(`^WITH users AS \(SELECT p\.\* FROM pg_catalog\.pg_proc p`)},
	{"functions that leave something", regexp.MustCompile(`WITH RECURSIVE every AS MATERIALIZED \(SELECT p\.oid, p\.proname`)},
	{"what functions have left", regexp.MustCompile(`^SELECT pg_catalog\.current_setting\('role'\); `)},
	{"schema", regexp.MustCompile(`^SELECT n\.nspname, c\.relname, a\.attname, a\.attnum, `)},
	{"schema of a database", regexp.MustCompile(`^SELECT 1 FROM pg_catalog\.pg_namespace n WHERE n\.nspname = `)},
	{"rows of locks", regexp.MustCompile(`^(INSERT INTO|UPDATE|DELETE FROM|SELECT .* FROM) sluice\.advisory_locks\b`)},
	{"sequences discarded", regexp.MustCompile(`^DISCARD SEQUENCES$`)},
	{"numbers of the session's own", regexp.MustCompile(`^SELECT NOT EXISTS \(SELECT 1 FROM pg_catalog\.pg_proc p .* WHERE p\.proname IN \('nextval',`)},
	{"settings", regexp.MustCompile(`^((RE)?SET [^;]*; )+$|^RESET [a-z_]+$|^SET [a-z_]+ TO [^;]*$`)},
	{"job of an index", regexp.MustCompile(`\bFROM sys\.jobs\b`)},
	{"index of a job", regexp.MustCompile(`^SELECT (i\.)?indisvalid FROM pg_catalog\.pg_index\b`)},
}

// onPostgres matches the statements that Sluice puts in front of its own queries if the server is PostgreSQL, not
// DSQL.
var onPostgres = regexp.MustCompile(`^SET LOCAL statement_timeout TO 0; .* SET LOCAL ROLE NONE; `)

// QuestionOf returns the name of the query that Sluice sends with this text, "" for any other text. The text is that of
// a Query or of a Parse.
func QuestionOf(sql string) string {
	sql = onPostgres.ReplaceAllString(sql, "")
	for _, t := range questionTexts {
		if t.text.MatchString(sql) {
			return t.name
		}
	}
	return ""
}

// IsQuestion reports whether name is the name of a query that Sluice sends by itself.
func IsQuestion(name string) bool { return slices.Contains(QuestionNames(), name) }

// QuestionNames returns the names of all queries that Sluice sends by itself.
func QuestionNames() (all []string) {
	for _, t := range questionTexts {
		all = append(all, t.name)
	}
	return all
}

// ListNames returns the names of all queries in one line for users: a, b, c.
func ListNames() string { return strings.Join(QuestionNames(), ", ") }
