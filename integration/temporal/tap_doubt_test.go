package temporal

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// row is what an INSERT was to write: its values by column, as they were bound.
type row map[string]parameter

type parameter struct {
	value  []byte
	binary bool
}

// is reports whether the parameter is what an error's detail spells so. An integer and a
// bytea in binary look alike, so either will do.
func (p parameter) is(spelt string) bool {
	if !p.binary {
		return string(p.value) == spelt
	}
	return number(p.value, true) == spelt || `\x`+hex.EncodeToString(p.value) == spelt
}

var insertion = regexp.MustCompile(`(?i)^\s*INSERT\s+INTO\s+\w+\s*\(([^)]*)\)\s*VALUES`)

// inserted returns the rows of an INSERT of nothing but parameters, in their order.
func inserted(sql string, m *pgproto3.Bind) (rows []row) {
	found := insertion.FindStringSubmatch(sql)
	if found == nil {
		return nil
	}
	columns := strings.Split(found[1], ",")
	for i, value := range m.Parameters {
		if i%len(columns) == 0 {
			rows = append(rows, row{})
		}
		binary := len(m.ParameterFormatCodes) > 0 && m.ParameterFormatCodes[min(i, len(m.ParameterFormatCodes)-1)] == 1
		rows[len(rows)-1][strings.TrimSpace(columns[i%len(columns)])] = parameter{slices.Clone(value), binary}
	}
	return rows
}

var keyOf = regexp.MustCompile(`^Key \(([^)]*)\)=\((.*)\) already exists`)

// unexplained returns the errors that say that a row is there already, where no client was
// left in doubt about a row of that key before.
func (p *tap) unexplained() []told {
	p.mu.Lock()
	defer p.mu.Unlock()
	var odd []told
	for _, e := range p.errors {
		if e.sqlState == "23505" && !slices.ContainsFunc(p.doubtful[:e.doubtful], func(r row) bool { return r.has(e.detail) }) {
			odd = append(odd, e)
		}
	}
	return odd
}

func (r row) has(detail string) bool {
	key := keyOf.FindStringSubmatch(detail)
	if key == nil {
		return false
	}
	columns, values := strings.Split(key[1], ", "), strings.Split(key[2], ", ")
	if len(columns) != len(values) {
		return false
	}
	for i, column := range columns {
		if p, ok := r[column]; !ok || !p.is(values[i]) {
			return false
		}
	}
	return true
}

// A row that is there already is explained by an answer that was lost before, and by
// nothing else.
func TestTapKnowsDoubtfulRows(t *testing.T) {
	t.Parallel()
	const sql = "INSERT INTO tasks(range_hash, task_queue_id, task_id) VALUES ($1, $2, $3),\n($4, $5, $6)"
	bind := &pgproto3.Bind{ParameterFormatCodes: []int16{0, 1, 0, 0, 1, 1}, Parameters: [][]byte{
		[]byte("7"), {0xab}, []byte("11"), []byte("7"), {0xab}, {0, 0, 0, 0, 0, 0, 0, 12}}}
	detail := func(id string) string {
		return `Key (range_hash, task_queue_id, task_id)=(7, \xab, ` + id + `) already exists.`
	}
	p := &tap{doubtful: inserted(sql, bind), errors: []told{
		{sqlState: "23505", detail: detail("11")}, // in front of the doubt
		{sqlState: "23505", detail: detail("11"), doubtful: 2},
		{sqlState: "23505", detail: detail("12"), doubtful: 2},
		{sqlState: "23505", detail: detail("13"), doubtful: 2},
		{sqlState: "08007", doubtful: 2},
	}}
	var got []string
	for _, e := range p.unexplained() {
		got = append(got, e.detail)
	}
	if want := []string{detail("11"), detail("13")}; !slices.Equal(got, want) {
		t.Errorf("unexplained are %q, want %q", got, want)
	}
}
