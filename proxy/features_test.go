package proxy_test

import (
	"flag"
	"regexp"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/rewrite"
)

// withoutFlag plays all tests of the package without one feature. What fails needs that feature.
var withoutFlag = flag.String("proxy.without", "", "the feature that each server of the tests is without: a name of features")

// optionalFeature is a feature that can be left out of the tables of handlers, observers and rules.
type optionalFeature struct {
	handlers  []rewrite.LocalWork
	observers []string
	rules     func(*rewrite.Rules)
	// plays has dialogues with the feature's statements, and at least one that Sluice answers otherwise than PostgreSQL does.
	// Without the feature the server does them.
	plays []string
	// answersAlike means that all answers equal PostgreSQL's. The metric of local answers then shows that Sluice gives them.
	answersAlike bool
}

// features are the features that can be left out.
var features = map[string]optionalFeature{
	"copyin": {handlers: []rewrite.LocalWork{rewrite.CopiesIn}, plays: []string{
		"Q COPY left_rows (a, b) FROM STDIN\n< G\nd 1\\tx\\n2\\ty\\n\nc\n< Z\nQ SELECT a, b FROM left_rows ORDER BY a\n< Z\nQ DELETE FROM left_rows\n< Z\n",
		"Q BEGIN\n< Z\nP - | COPY left_rows (a, b) FROM STDIN\nB - | -\nE -\nS\n< G\nd 3\\tz\\n\nc\nS\n< Z\nQ ROLLBACK\n< Z\n"}},
	"cursor": {handlers: []rewrite.LocalWork{rewrite.UsesCursor, rewrite.ClosesAll}, observers: []string{"stored cursors"}, rules: func(r *rewrite.Rules) { r.Cursors = false }, plays: []string{
		"Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 4) g\n< Z\nQ FETCH 2 FROM c\n< Z\nQ MOVE 1 FROM c\n< Z\nQ FETCH ALL FROM c\n< Z\nQ CLOSE c\n< Z\nQ FETCH 1 FROM c\n< Z\nQ ROLLBACK\n< Z\n",
		"Q BEGIN\n< Z\n" + ext("DECLARE c CURSOR FOR SELECT 1 AS one") + ext("FETCH 1 FROM c") + "S\n< Z\nQ CLOSE ALL\n< Z\nQ COMMIT\n< Z\n",
		"Q BEGIN\n< Z\nQ DECLARE h CURSOR WITH HOLD FOR SELECT 1 AS one\n< Z\nQ ROLLBACK\n< Z\nQ DECLARE c CURSOR FOR SELECT 1\n< Z\n",
		"Q BEGIN\n< Z\nQ DECLARE s SCROLL CURSOR FOR SELECT g FROM generate_series(1, 4) g\n< Z\nQ FETCH 2 FROM s\n< Z\nQ FETCH BACKWARD 1 FROM s\n< Z\nQ ROLLBACK\n< Z\n"}},
	"advisory": {handlers: []rewrite.LocalWork{rewrite.Locks}, observers: []string{"advisory locks"}, rules: func(r *rewrite.Rules) { r.Advisory = false }, plays: []string{
		"Q BEGIN\n< Z\nQ SELECT pg_try_advisory_lock(17)\n< Z\nQ SELECT pg_advisory_unlock(17)\n< Z\nQ COMMIT\n< Z\n",
		ext("SELECT pg_try_advisory_lock(18)") + ext("SELECT pg_advisory_unlock(18)") + "S\n< Z\n"}},
	"ddl": {handlers: []rewrite.LocalWork{rewrite.Alters, rewrite.ChangesDatabase}, plays: []string{
		"Q ALTER TABLE left_rows ADD COLUMN c int DEFAULT 7\n< Z\nQ SELECT c FROM left_rows\n< Z\nQ ALTER TABLE left_rows DROP COLUMN c\n< Z\n",
		"Q ALTER TABLE left_rows ADD CONSTRAINT left_positive CHECK (a > 0)\n< Z\nQ ALTER TABLE left_rows DROP CONSTRAINT left_positive\n< Z\n",
		"Q CREATE DATABASE app_left\n< Z\nQ SELECT count(*) FROM pg_namespace WHERE nspname = 'app_left'\n< Z\nQ DROP DATABASE app_left\n< Z\n"}},
	"ddltx": {observers: []string{"parts", "index jobs"}, rules: func(r *rewrite.Rules) { r.InTransactions = rewrite.RefuseDDL }, plays: []string{
		"Q BEGIN\n< Z\nQ CREATE TABLE left_a (a int)\n< Z\nQ CREATE TABLE left_b (a int)\n< Z\nQ COMMIT\n< Z\nQ DROP TABLE left_a\n< Z\nQ DROP TABLE left_b\n< Z\n"}},
	"batch": {rules: func(r *rewrite.Rules) { r.Chunked = nil }, plays: []string{
		"Q INSERT INTO left_rows SELECT g FROM generate_series(1, 20) g\n< Z\nQ DELETE FROM left_rows WHERE a > 10\n< Z\n" + ext("DELETE FROM left_rows") + "S\n< Z\n",
		"Q INSERT INTO left_many SELECT g FROM generate_series(1, 4000) g\n< Z\nQ DELETE FROM left_many WHERE a > 0\n< Z\nQ TRUNCATE left_many\n< Z\n"}},
	"sequence": {handlers: []rewrite.LocalWork{rewrite.DiscardsSequences}, observers: []string{"sequences"}, plays: []string{
		"Q BEGIN\n< Z\nQ SELECT nextval('left_numbers') > 0 AS drawn\n< Z\nQ SELECT currval('left_numbers') = lastval() AS same\n< Z\nQ COMMIT\n< Z\n",
		"Q DISCARD SEQUENCES\n< Z\n"}, answersAlike: true},
}

// allFeatures has every optional feature, on a server that could do without.
func allFeatures(s *setup) {
	asDSQL(s)
	asSchemas(s)
	s.rules = rewrite.AllRules()
	s.rules.Backfill, s.rules.CopyIn, s.rules.Advisory, s.rules.Index, s.rules.AwaitIndex = true, true, true, false, false
	s.rules.Chunked, s.rules.InTransactions = []string{"left*"}, rewrite.CommitDrops
	s.proxy.Locks = advisory.LeaseTerms{Lease: proxy.DefaultLockLease, LongestDDL: proxy.DefaultLockLongest}
}

// Without one feature all others answer as before. What the feature did the server does.
func TestWithoutAFeature(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", `CREATE TABLE left_rows (a int PRIMARY KEY, b text); CREATE SEQUENCE left_numbers;
		CREATE TABLE left_many (a int PRIMARY KEY);
		CREATE FUNCTION left_limit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF (SELECT count(*) FROM gone) > 3000 THEN RAISE EXCEPTION 'transaction row limit exceeded' USING ERRCODE = '54000'; END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER left_limit AFTER DELETE ON left_many REFERENCING OLD TABLE AS gone EXECUTE FUNCTION left_limit()`)
	hint := regexp.MustCompile(`(?m) H=.*$`) // of a server's error: Sluice may name a key there
	play := func(without string) map[string]string {
		got := map[string]string{}
		for name, f := range features { // each on backends of its own: what currval answers depends on them
			s := startSluice(t, pg, allFeatures, withReplay, func(s *setup) { s.without = without })
			for _, script := range f.plays {
				got[name] += hint.ReplaceAllString(perform(t, s.addr, script), "")
			}
			if answers := s.count(t, "dsql_local_answers_total", "statement"); f.answersAlike && (answers > 0) != (name != without) {
				t.Errorf("without %q, %s: Sluice answers %v statements", without, name, answers)
			}
		}
		return got
	}
	want, direct := play(""), map[string]string{}
	for name, f := range features {
		for _, script := range f.plays {
			direct[name] += hint.ReplaceAllString(perform(t, pg.addr, script), "")
		}
		if direct[name] == want[name] && !f.answersAlike {
			t.Errorf("%s: PostgreSQL answers all of its dialogues as Sluice does", name)
		}
	}
	for without := range features {
		for name, got := range play(without) {
			switch {
			case name != without && got != want[name]:
				t.Errorf("without %s, %s: %s", without, name, firstDifference(got, want[name]))
			case name == without && got != direct[name]:
				t.Errorf("without %s the server does not do its statements: %s", without, firstDifference(got, direct[name]))
			}
		}
	}
}
