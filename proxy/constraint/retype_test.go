package constraint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// modelled is a server with one table, of which it knows the columns and whose values each of
// them has: it refuses what DSQL refuses, and fails at one statement.
type modelled struct {
	scripted
	columns map[string]string // by name, old or new: whose values they are
	at      int               // at which statement that changes something it fails; -1: at none
	with    error
	before  bool // the failing statement does nothing
	changes []string
	tried   []string // questions whether the new type has a meaning in an index
	meaning error    // what they are answered
}

var changing = regexp.MustCompile(`^(ALTER|UPDATE|CREATE|DROP)`)

func (m *modelled) Ask(sql string, row func([]string)) error {
	if strings.Contains(sql, " TYPE ") || strings.Contains(sql, "SET NOT NULL") || strings.Contains(sql, " UNIQUE (") || strings.Contains(sql, " CHECK (") && !strings.HasSuffix(sql, " NOT VALID") {
		return &wire.Error{Code: "0A000", Message: "unsupported"}
	}
	if strings.Contains(sql, "conname, contype") {
		for name, values := range m.columns {
			if values == "old" {
				row([]string{"t_c_check", "c", "CHECK (((" + name + ")::text <> 'x'::text))", "t", "t"})
				row([]string{"t_c_loose", "c", "CHECK (((" + name + ")::text <> 'y'::text)) NOT VALID", "t", "f"})
			}
		}
		return nil
	}
	if strings.Contains(sql, "indkey) WITH ORDINALITY k (at, n)") {
		for name, values := range m.columns {
			if values != "old" {
				continue
			}
			plain, late := "CREATE INDEX t_c ON public.t USING btree (id, lower(("+name+")::text))", "CREATE UNIQUE INDEX t_late ON public.t USING btree (id) WHERE ("+name+" IS NULL)"
			row([]string{"t_c_key", "t", "t", "t", "f", "f", name, "t", ""})
			row([]string{"t_c", "f", "t", "f", "f", "f", "id", "t", plain})
			row([]string{"t_c", "f", "t", "f", "f", "f", "", "t", plain})
			row([]string{"t_late", "t", "t", "f", "f", "f", "id", "t", late})
		}
		return nil
	}
	if strings.Contains(sql, "FROM (SELECT CAST") {
		m.tried = append(m.tried, sql)
		return m.meaning
	}
	if !changing.MatchString(sql) {
		return m.scripted.Ask(sql, row)
	}
	m.changes = append(m.changes, sql)
	fails := len(m.changes)-1 == m.at
	if fails && m.before {
		return m.with
	}
	err := m.change(sql)
	if err == nil && row != nil && strings.Contains(sql, "ASYNC") {
		row([]string{"job"})
	}
	if fails {
		return m.with
	}
	return err
}

// change does what a statement says to the columns.
func (m *modelled) change(sql string) error {
	words := strings.Fields(strings.ReplaceAll(sql, `"`, ""))
	switch {
	case strings.Contains(sql, " ADD COLUMN "):
		m.columns[words[5]] = "none"
	case strings.Contains(sql, " DROP COLUMN "):
		return m.move(words[5], "")
	case strings.Contains(sql, " RENAME COLUMN "):
		return m.move(words[5], words[7])
	case strings.HasPrefix(sql, "UPDATE"):
		if values := m.columns[words[5]]; values == "old" {
			m.columns[words[3]] = "new"
		}
	}
	return nil
}

// move gives a column another name; "" drops it.
func (m *modelled) move(from, to string) error {
	values, ok := m.columns[from]
	if !ok {
		return &wire.Error{Code: undefinedColumn, Message: "no such column"}
	}
	delete(m.columns, from)
	if to != "" {
		m.columns[to] = values
	}
	return nil
}

func (m *modelled) UpdateInBatches(table string, update func(key []string, rows int) string) (int, error) {
	return 1, m.Ask(update([]string{"id"}, 3), nil)
}

// retype is the work of a statement at such a server.
func retype(t *testing.T) (*ColumnRetyper, *modelled) {
	t.Helper()
	config := rewrite.Defaults()
	config.Rules.Retype, config.Rules.NotNullCheck = true, true
	p, err := rewrite.New(config)
	if err != nil {
		t.Fatal(err)
	}
	st := p.Plan([]byte("ALTER TABLE t ALTER COLUMN c TYPE varchar(150)")).SingleStatement()
	m := &modelled{columns: map[string]string{"id": "id", "c": "old"}, at: -1}
	m.script = []answer{
		{times: 99, words: "format_type", rows: [][]string{{"character varying(100)", "t", "t", "f", "'x'", "7", "public", "r", "2", "varchar", "varchar", ""}}},
		{times: 99, words: "c.relkind FROM", rows: [][]string{{"7", "public", "t", "r"}}},
		{times: 99, words: "a.attnotnull, COALESCE(p.conname", rows: [][]string{{"f", "", "f", ""}}},
		{times: 99, words: "FROM sys.jobs", rows: [][]string{{"completed", ""}}},
		{times: 99, words: "SELECT convalidated", rows: [][]string{{"t"}}},
		{times: 99, words: "SELECT i.indisvalid", rows: [][]string{{"t"}}},
	}
	return NewColumnRetyper(m, st.Steps.(*alter.Alteration)), m
}

// state is the columns of the table, without the digits of their names.
func (m *modelled) state() string {
	var all []string
	for name, values := range m.columns {
		all = append(all, regexp.MustCompile(`_[0-9a-f]{8}$`).ReplaceAllString(name, "")+"="+values)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

const (
	untouched = "c=old id=id"
	retypedTo = "c=new id=id"
)

// A column gets another type by steps in an order in which its values are never in less than one
// column.
func TestRetypeSteps(t *testing.T) {
	r, m := retype(t)
	if err := r.Run(); err != nil || m.state() != retypedTo || len(r.Notices) != 1 {
		t.Fatalf("%v, %s, %d notices\n%s", err, m.state(), len(r.Notices), strings.Join(m.changes, "\n"))
	}
	text := strings.NewReplacer(r.NewColumn, "NEW", r.OldColumn, "WAS", `"`, "").Replace(strings.Join(m.changes, "\n"))
	const want = `ALTER TABLE t ADD COLUMN NEW varchar(150)
UPDATE t SET NEW = NULL WHERE (id) IN (SELECT id FROM t WHERE NEW IS NOT NULL AND (CAST(NEW AS text) IS DISTINCT FROM CAST(CAST(c AS varchar(150)) AS text) OR NEW <> CAST(c AS varchar(150))) ORDER BY id LIMIT 3)
UPDATE t SET NEW = c WHERE (id) IN (SELECT id FROM t WHERE NEW IS NULL AND c IS NOT NULL ORDER BY id LIMIT 3)
CREATE UNIQUE INDEX ASYNC NEW_0 ON t (NEW)
ALTER TABLE t ADD CONSTRAINT NEW_0 UNIQUE USING INDEX NEW_0
CREATE INDEX ASYNC NEW_1 ON public.t (id, lower(NEW::text))
ALTER TABLE t RENAME COLUMN c TO WAS
ALTER TABLE t ALTER COLUMN NEW SET DEFAULT 'x'
UPDATE t SET NEW = NULL WHERE (id) IN (SELECT id FROM t WHERE NEW IS NOT NULL AND (CAST(NEW AS text) IS DISTINCT FROM CAST(CAST(WAS AS varchar(150)) AS text) OR NEW <> CAST(WAS AS varchar(150))) ORDER BY id LIMIT 3)
UPDATE t SET NEW = WAS WHERE (id) IN (SELECT id FROM t WHERE NEW IS NULL AND WAS IS NOT NULL ORDER BY id LIMIT 3)
CREATE UNIQUE INDEX ASYNC NEW_2 ON public.t (id) WHERE NEW IS NULL
ALTER TABLE t ADD CONSTRAINT t_c_sluice_not_null CHECK (NEW IS NOT NULL) NOT VALID
ALTER TABLE ASYNC t VALIDATE CONSTRAINT t_c_sluice_not_null
ALTER TABLE t ADD CONSTRAINT NEW_3 CHECK (((NEW)::text <> 'x'::text)) NOT VALID
ALTER TABLE ASYNC t VALIDATE CONSTRAINT NEW_3
ALTER TABLE t ADD CONSTRAINT NEW_4 CHECK (((NEW)::text <> 'y'::text)) NOT VALID
ALTER TABLE t ADD CONSTRAINT NEW_s CHECK ((NEW IS NULL AND WAS IS NULL) OR (NEW IS NOT NULL AND WAS IS NOT NULL AND CAST(NEW AS text) = CAST(CAST(WAS AS varchar(150)) AS text) AND NEW = CAST(WAS AS varchar(150)))) NOT VALID
UPDATE t SET NEW = WAS WHERE (id) IN (SELECT id FROM t WHERE NOT ((NEW IS NULL AND WAS IS NULL) OR (NEW IS NOT NULL AND WAS IS NOT NULL AND CAST(NEW AS text) = CAST(CAST(WAS AS varchar(150)) AS text) AND NEW = CAST(WAS AS varchar(150)))) ORDER BY id LIMIT 3)
ALTER TABLE t DROP COLUMN WAS
ALTER TABLE t RENAME COLUMN NEW TO c
ALTER TABLE t RENAME CONSTRAINT NEW_0 TO t_c_key
ALTER INDEX public.NEW_1 RENAME TO t_c
ALTER INDEX public.NEW_2 RENAME TO t_late
ALTER TABLE t RENAME CONSTRAINT NEW_3 TO t_c_check
ALTER TABLE t RENAME CONSTRAINT NEW_4 TO t_c_loose`
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// An index whose expression has no meaning over the new type is told of before anything is changed, and
// what such an expression is over the new column is asked with the values of the old one.
func TestRetypeTriesIndexes(t *testing.T) {
	r, m := retype(t)
	m.meaning = &wire.Error{Code: "42883", Message: "function lower(" + r.NewColumn + ") does not exist"}
	err := r.Run()
	if told, ok := err.(*wire.Error); !ok || told.Code != "42883" || told.Message != "function lower(c) does not exist" || len(m.changes) > 0 {
		t.Errorf("%v, %v", err, m.changes)
	}
	want := `SELECT "id", (lower(` + r.NewColumn + `::text)) FROM (SELECT CAST("c" AS varchar(150)) AS "` + r.NewColumn + `", "id" FROM t) t LIMIT 0`
	if len(m.tried) != 1 || m.tried[0] != want {
		t.Errorf("asked %q\nwant %q", m.tried, want)
	}
}

// A statement that fails at any step has changed nothing, or is done, or tells what is left to do:
// that leads to the table as it was, or as it was to be.
func TestRetypeFails(t *testing.T) {
	const steps = 25
	taken := &wire.Error{Code: "2BP01", Message: "other objects depend on it"}
	ends := map[string]int{}
	for at := range steps {
		for name, with := range map[string]error{"refused": taken, "cancelled": errCancel, "lost before": errLost, "lost behind": errLost, "conflict": &wire.Error{Code: "40001", Message: "conflict"}} {
			r, m := retype(t)
			m.at, m.with, m.before = at, with, name != "lost behind"
			err := r.Run()
			what := fmt.Sprintf("%s at %d", name, at)
			told := r.WithPartialResult(&wire.Error{Code: "08007", Message: "x"}).(*wire.Error)
			if err == nil {
				if m.state() != retypedTo {
					t.Errorf("%s: no error, %s", what, m.state())
				}
				ends["done"]++
				continue
			}
			if told.Detail == "" && name != "lost before" && name != "lost behind" {
				if ends["untouched"]++; m.state() != untouched {
					t.Errorf("%s: %v, %s", what, err, m.state())
				}
				continue
			}
			if told.Detail == "" || !strings.Contains(told.Detail, r.NewColumn) {
				t.Errorf("%s: nothing is told of %s", what, m.state())
			}
			_, list, _ := strings.Cut(told.Hint, ": ")
			for _, sql := range strings.Split(strings.TrimSuffix(list, "."), "; ") {
				if err := m.change(sql); err != nil && !strings.Contains(told.Hint, "done") {
					t.Errorf("%s: %s: %v", what, sql, err)
				}
			}
			if got := m.state(); got != untouched && got != retypedTo {
				t.Errorf("%s, by hand: %s\n%s", what, got, told.Hint)
			}
			ends["told"]++
		}
	}
	if t.Log(ends); ends["done"] == 0 || ends["untouched"] < 20 || ends["told"] < steps {
		t.Errorf("%v", ends)
	}
}
