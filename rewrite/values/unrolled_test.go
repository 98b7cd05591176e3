package values

import "testing"

// Rows as SQLAlchemy inserts them are an INSERT ... VALUES of the same rows, and nothing like it is taken for that.
func TestUnrolled(t *testing.T) {
	p := newPlanner(t)
	const behind = " AS imp_sen(p0, p1, sen_counter) ORDER BY sen_counter"
	for sql, want := range map[string]string{
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1::INTEGER FROM (VALUES ($1::VARCHAR, $2::INTEGER, 0), ($3::VARCHAR, NULL, 1))" + behind + " RETURNING t.id, t.id AS id__1": "INSERT INTO t (a, b) VALUES (($1::VARCHAR)::VARCHAR, ($2::INTEGER)::INTEGER), (($3::VARCHAR)::VARCHAR, (NULL)::INTEGER) RETURNING t.id, t.id AS id__1",
		`insert into "S"."T" AS x (a, b) select p1, p0::NUMERIC(3, 1) from (values ('it''s', 5, 7), (NULL, 6, 9))` + behind + ";":                                              `insert into "S"."T" AS x (a, b) VALUES ((5), (('it''s')::text)::NUMERIC(3, 1)), ((6), ((NULL)::text)::NUMERIC(3, 1));`,
		"INSERT INTO t (a, b) SELECT p0::TIMESTAMP WITHOUT TIME ZONE, p1 FROM (VALUES (CAST('x' AS timestamp), E'\\n', 0))" + behind + " ON CONFLICT DO NOTHING RETURNING id":  "INSERT INTO t (a, b) VALUES ((CAST('x' AS timestamp))::TIMESTAMP WITHOUT TIME ZONE, ((E'\\n')::text)) ON CONFLICT DO NOTHING RETURNING id",
		"INSERT INTO t (a) SELECT p0::BYTEA FROM (VALUES (('\\x00'::bytea), true, 0))" + behind:                                                                                "INSERT INTO t (a) VALUES ((('\\x00'::bytea))::BYTEA)",
		// The types of values would be others, or the rows, or their order.
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ($1, $2, 0))" + behind:                                                "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a', 1, 0), (2, 1, 1))" + behind:                                     "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a', 1, 0), ('2'::int, 1, 1))" + behind:                              "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a'::text, 1, 0), ('2'::int, 1, 1))" + behind:                        "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a', 1, 0), ('b', 1.5, 1))" + behind:                                 "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a', 1, 1), ('b', 1, 0))" + behind:                                   "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a', 1, 0), ('b', 1, 0))" + behind:                                   "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a', 1, '0'))" + behind:                                              "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a', random(), 0))" + behind:                                         "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a', 1, 0))" + behind + " DESC":                                      "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a', 1, 0))" + behind + " LIMIT 1":                                   "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a', 1, 0)) AS imp_sen(p0, p1, sen_counter) ORDER BY p0":             "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a', 1, 0)) AS imp_sen(p0, p1, sen_counter)":                         "",
		"INSERT INTO t (a, b) SELECT p0::VARCHAR, p1 FROM (VALUES ('a', 1, 0)) AS imp_sen(p0, p1, sen_counter), u ORDER BY sen_counter": "",
		"INSERT INTO t (a, b) SELECT DISTINCT p0, p1 FROM (VALUES ('a', 1, 0))" + behind:                                                "",
		"INSERT INTO t (a, b) SELECT p0, p1 FROM (VALUES ('a', 1, 0) LIMIT 0)" + behind:                                                 "",
		"INSERT INTO t (a, b) SELECT p0, p1 + 1 FROM (VALUES ('a', 1, 0))" + behind:                                                     "",
		"INSERT INTO t (a, b) SELECT p0, sen_counter FROM (VALUES ('a', 1, 0))" + behind:                                                "",
		"INSERT INTO t (a, b) SELECT CAST(p0 AS text), p1 FROM (VALUES ('a', 1, 0))" + behind:                                           "",
		"INSERT INTO t (a, b) SELECT p0, p1 FROM (VALUES ('a', 1, 0))" + behind + " FOR UPDATE":                                         "",
		"INSERT INTO t SELECT p0, p1 FROM (VALUES ('a', 1, 0))" + behind:                                                                "",
		"INSERT INTO t (a, b) OVERRIDING SYSTEM VALUE SELECT p0, p1 FROM (VALUES ('a', 1, 0))" + behind:                                 "",
		"INSERT INTO t (a, b) SELECT p0, p1 FROM u WHERE p0 = 1 ORDER BY 1":                                                             "",
		"INSERT INTO t (a, b) SELECT p0, p1 FROM (VALUES ('a', 1, 0))" + behind + " UNION ALL SELECT 1, 2":                              "",
	} {
		statements := p.StatementTrees(sql)
		if len(statements) != 1 {
			continue // the grammar takes no such thing
		}
		got := unrollInsertSelect(sql, statements[0])
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", sql, got, want)
		}
		if got != "" && len(p.StatementTrees(got)) != 1 {
			t.Errorf("%s: no statement", got)
		}
	}
}
