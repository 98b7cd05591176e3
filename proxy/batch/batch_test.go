package batch

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// tables is a server that has tables with rows, and refuses transactions beyond its limits.
type tables struct {
	rows    map[string]int // rows to change, by table
	keyless string         // the table without a primary key
	most    int            // rows that one transaction may change
	errs    map[int]error  // what the nth batch fails with, from 1
	refs    [][]string     // the rows of a TRUNCATE's question for references
	left    int            // batches that More allows; 0: no limit

	batches []string
	changed int
}

// changesOf matches a statement that changes a table.
func changesOf(table string) *regexp.Regexp {
	return regexp.MustCompile(`(UPDATE|DELETE FROM) "?` + table)
}

var limitOf = regexp.MustCompile(`LIMIT (\d+)`)

var errStop = errors.New("stopped")

func (s *tables) Ask(sql string, row func([]string)) error {
	switch {
	case strings.Contains(sql, "contype = 'p'"):
		if s.keyless == "" || !strings.Contains(sql, s.keyless) {
			row([]string{"k"})
		}
	default:
		for _, ref := range s.refs {
			row(ref)
		}
	}
	return nil
}

// Count runs a batch whose text names its table and number of rows.
func (s *tables) Count(frames []byte, verb string) (int, error) {
	text := string(frames)
	s.batches = append(s.batches, text)
	if err := s.errs[len(s.batches)]; err != nil {
		return 0, err
	}
	for name := range s.rows {
		if !changesOf(name).MatchString(text) {
			continue
		}
		all := limitOf.FindAllStringSubmatch(text, -1)
		if all == nil {
			return 0, fmt.Errorf("no limit in %q", text)
		}
		limit, _ := strconv.Atoi(all[len(all)-1][1])
		n := min(limit, s.rows[name])
		if n > s.most {
			return 0, &wire.Error{Code: "54000", Message: "transaction row limit exceeded"}
		}
		s.rows[name] -= n
		s.changed += n
		return n, nil
	}
	return 0, fmt.Errorf("no table in %q", text)
}

func (s *tables) RefusalFrom(err error) *wire.Error {
	refusal, _ := err.(*wire.Error)
	return refusal
}

func (s *tables) CheckMayContinue() error {
	if s.left > 0 && len(s.batches) >= s.left {
		return errStop
	}
	return nil
}

func next(key []string, rows int) string {
	return fmt.Sprintf("UPDATE many BY %s LIMIT %d", strings.Join(key, ","), rows)
}

func TestUpdate(t *testing.T) {
	conflict := &wire.Error{Code: "40001", Message: "change conflicts with another transaction"}
	failure := &wire.Error{Code: "23514", Message: "violates check constraint"}
	for name, test := range map[string]struct {
		server  tables
		changed int
		err     error
		batches int
	}{
		"two batches":     {tables{rows: map[string]int{"many": 2901}, most: 3000}, 2901, nil, 2},
		"exactly one":     {tables{rows: map[string]int{"many": Rows}, most: 3000}, Rows, nil, 2},
		"no row":          {tables{rows: map[string]int{"many": 0}, most: 3000}, 0, nil, 1},
		"too large":       {tables{rows: map[string]int{"many": 3000}, most: 1000}, 3000, nil, 2 + 5},
		"conflict":        {tables{rows: map[string]int{"many": 100}, most: 3000, errs: map[int]error{1: conflict}}, 100, nil, 2},
		"failure":         {tables{rows: map[string]int{"many": 4000}, most: 3000, errs: map[int]error{2: failure}}, Rows, failure, 2},
		"lost":            {tables{rows: map[string]int{"many": 4000}, most: 3000, errs: map[int]error{1: errStop}}, 0, errStop, 1},
		"stopped":         {tables{rows: map[string]int{"many": 9000}, most: 3000, left: 2}, 2 * Rows, errStop, 2},
		"keyless":         {tables{rows: map[string]int{"many": 10}, most: 3000, keyless: "many"}, 10, nil, 1},
		"keyless, full":   {tables{rows: map[string]int{"many": Rows}, most: 3000, keyless: "many"}, Rows, nil, 1},
		"keyless, large":  {tables{rows: map[string]int{"many": 10}, most: 3, keyless: "many"}, 0, &wire.Error{Code: "54000", Message: "transaction row limit exceeded"}, 1},
		"one row too big": {tables{rows: map[string]int{"many": 1}, most: 0}, 0, &wire.Error{Code: "54000", Message: "transaction row limit exceeded"}, 12},
	} {
		t.Run(name, func(t *testing.T) {
			committed := 0
			changed, err := Update(&test.server, "many", next, func() { committed++ })
			if changed != test.changed || fmt.Sprint(err) != fmt.Sprint(test.err) {
				t.Errorf("%d rows, %v; want %d, %v", changed, err, test.changed, test.err)
			}
			if len(test.server.batches) != test.batches || test.server.changed != changed {
				t.Errorf("%d batches changed %d rows; want %d", len(test.server.batches), test.server.changed, test.batches)
			}
			if test.err == nil && committed == 0 {
				t.Error("no batch is counted")
			}
			if name == "conflict" && !strings.Contains(test.server.batches[1], fmt.Sprint("LIMIT ", Rows/16)) {
				t.Errorf("after a conflict: %q", test.server.batches[1])
			}
		})
	}
}

// chunked returns the batches that the planner sees in a statement.
func chunked(t *testing.T, sql string) *rewrite.BatchedDelete {
	t.Helper()
	c := rewrite.Defaults()
	c.Rules.Chunked, c.Rules.Truncate = []string{"many", "other"}, rewrite.TruncateBatches
	p, err := rewrite.New(c)
	if err != nil {
		t.Fatal(err)
	}
	form := p.BatchedDelete(p.Plan([]byte(sql)))
	if form == nil {
		t.Fatalf("%s has no batches", sql)
	}
	return form
}

var tooLarge = &wire.Error{Code: "54000", Message: "transaction row limit exceeded"}

// A DELETE has the server's error while nothing is deleted. Later errors say how many rows are.
func TestDelete(t *testing.T) {
	failure := &wire.Error{Code: "23503", Message: "violates foreign key constraint", Detail: "Key is referenced."}
	for name, test := range map[string]struct {
		server tables
		answer string // Done's tag, or the client's error
	}{
		"batches":         {tables{rows: map[string]int{"many": 7000}, most: 3000}, "DELETE 7000"},
		"halved":          {tables{rows: map[string]int{"many": 3000}, most: 1500}, "DELETE 3000"},
		"keyless":         {tables{rows: map[string]int{"many": 7000}, keyless: "many"}, "54000 transaction row limit exceeded||The table has no primary key"},
		"the first fails": {tables{rows: map[string]int{"many": 7000}, most: 3000, errs: map[int]error{1: failure}}, "23503 violates foreign key constraint|Key is referenced. 0 rows are deleted, and stay so.|"},
		"a later fails":   {tables{rows: map[string]int{"many": 7000}, most: 3000, errs: map[int]error{2: failure}}, "23503 violates foreign key constraint|Key is referenced. 2900 rows are deleted, and stay so.|"},
	} {
		t.Run(name, func(t *testing.T) {
			refusal := *tooLarge
			d := NewDelete(chunked(t, "DELETE FROM many WHERE k > 0"), nil, &refusal)
			if got := outcome(d, &test.server); !strings.HasPrefix(got, test.answer) {
				t.Errorf("%s; want %s", got, test.answer)
			}
		})
	}
}

// outcome returns the client's answer.
func outcome(d *Delete, server *tables) string {
	err := d.Run(server, func() {})
	if e := server.RefusalFrom(err); e != nil {
		e = d.Described(e)
		return fmt.Sprintf("%s %s|%s|%s", e.Code, e.Message, e.Detail, e.Hint)
	}
	if err != nil {
		return err.Error()
	}
	done := d.Done()
	return strings.TrimRight(string(done[strings.LastIndexByte(string(done[:len(done)-1]), 0)+2:]), "\x00")
}

// A batch of a bound DELETE has the client's types and values, and nothing of a client's names.
func TestDeleteWithParams(t *testing.T) {
	server := tables{rows: map[string]int{"many": 10}, most: 3000}
	params := &Params{OIDs: "\x00\x01\x00\x00\x00\x17", Values: []byte("\x00\x00\x00\x01\x00\x00\x00\x015\x00\x00")}
	if err := NewDelete(chunked(t, "DELETE FROM many WHERE k > $1"), params, tooLarge).Run(&server, func() {}); err != nil {
		t.Fatal(err)
	}
	var kinds []byte
	for frames := server.batches[0]; len(frames) > 0; {
		n := 1 + int(frames[1])<<24 + int(frames[2])<<16 + int(frames[3])<<8 + int(frames[4])
		kinds = append(kinds, frames[0])
		switch frames[0] {
		case wire.Parse:
			if !strings.HasPrefix(frames[5:n], "\x00") || !strings.HasSuffix(frames[:n], params.OIDs) {
				t.Errorf("Parse %q", frames[:n])
			}
		case wire.Bind:
			if frames[5:n] != "\x00\x00"+string(params.Values) {
				t.Errorf("Bind %q", frames[:n])
			}
		}
		frames = frames[n:]
	}
	if string(kinds) != "PBES" {
		t.Errorf("frames %q", kinds)
	}
}

// A lost backend leaves nothing in doubt before the first batch.
func TestDeleteThatIsLost(t *testing.T) {
	unknown := &wire.Error{Code: "08007", Message: "outcome unknown"}
	d := NewDelete(chunked(t, "DELETE FROM many WHERE k > 0"), nil, tooLarge)
	if got := d.Lost(unknown); got != tooLarge {
		t.Errorf("before a batch: %v", got)
	}
	server := tables{rows: map[string]int{"many": 7000}, most: 3000, errs: map[int]error{2: errStop}}
	if err := d.Run(&server, func() {}); !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	if got := d.Lost(unknown); got.Code != "08007" || got.Detail != "2900 rows are deleted, and stay so." {
		t.Errorf("after a batch: %+v", got)
	}
}

// TRUNCATE empties a table before those that it refers to.
func TestTruncate(t *testing.T) {
	for name, test := range map[string]struct {
		refs  [][]string
		first string // the table that is emptied first
		err   string
	}{
		"no reference":        {nil, "many", ""},
		"many refers":         {[][]string{{"0", "1", "a"}}, "many", ""},
		"other refers":        {[][]string{{"1", "0", "a"}}, "other", ""},
		"to itself":           {[][]string{{"0", "0", "a"}}, "", "circle"},
		"to itself, cascades": {[][]string{{"0", "0", "c"}}, "many", ""},
		"a circle":            {[][]string{{"0", "1", "a"}, {"1", "0", "a"}}, "", "circle"},
		"nonsense":            {[][]string{{"x", "1", "a"}, {"7", "1", "a"}, {"1"}}, "many", ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := tables{rows: map[string]int{"many": 3000, "other": 10}, most: 3000, refs: test.refs}
			refusal := *tooLarge
			got := outcome(NewDelete(chunked(t, "TRUNCATE many, other"), nil, &refusal), &server)
			if test.err != "" {
				if !strings.Contains(got, test.err) || len(server.batches) > 0 {
					t.Errorf("%s after %d batches", got, len(server.batches))
				}
				return
			}
			if got != rewrite.TruncateTag || server.changed != 3010 {
				t.Errorf("%s, %d rows", got, server.changed)
			}
			if at := slices.IndexFunc(server.batches, func(b string) bool { return changesOf(test.first).MatchString(b) }); at != 0 {
				t.Errorf("%s is emptied by batch %d", test.first, at)
			}
		})
	}
}

// The client is warned of a TRUNCATE that took more than one transaction which deleted rows.
func TestTruncateWarning(t *testing.T) {
	for rows, warned := range map[int]bool{0: false, 10: false, 3000: true} {
		server := tables{rows: map[string]int{"many": rows, "other": 0}, most: 3000}
		d := NewDelete(chunked(t, "TRUNCATE many, other"), nil, tooLarge)
		if err := d.Run(&server, func() {}); err != nil {
			t.Fatal(err)
		}
		if got := d.Done()[0] == wire.NoticeResponse; got != warned {
			t.Errorf("%d rows: warned %v", rows, got)
		}
	}
}
