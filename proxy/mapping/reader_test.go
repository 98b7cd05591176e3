package mapping

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// A reading sends the queries of the server's own part once, and repeats what a changed schema has ended.
func TestQueriesOfAReading(t *testing.T) {
	conflict, refused := &RefusedError{"40001", "schema changed"}, &RefusedError{"42501", "permission denied"}
	all := []string{"system", "role", "path", "columns", "defaults"}
	repeat := func(err error, n int) (errs []error) {
		for range n {
			errs = append(errs, err)
		}
		return errs
	}
	for name, test := range map[string]struct {
		kind  string
		fault []error
		took  time.Duration
		sent  []string
		err   error
		fill  schema.DefaultKind
	}{
		"no fault":                {sent: all, fill: schema.Drawn},
		"a conflict":              {kind: "columns", fault: repeat(conflict, 1), sent: append(slices.Clone(all[:4]), all[3:]...), fill: schema.Drawn},
		"conflicts without end":   {kind: "system", fault: repeat(conflict, 20), sent: strings.Fields(strings.Repeat("system ", maxTries)), err: conflict},
		"defaults in a conflict":  {kind: "defaults", fault: repeat(conflict, 1), sent: append(slices.Clone(all), all[3:]...), fill: schema.Drawn},
		"defaults refused":        {kind: "defaults", fault: repeat(refused, 1), sent: all, fill: schema.Unclear},
		"defaults lost":           {kind: "defaults", fault: repeat(errLost, 1), sent: all, err: errLost},
		"columns late":            {took: maxColumnQueryTime + 1, sent: all[:4], fill: schema.Unclear},
		"columns refused":         {kind: "columns", fault: repeat(refused, 1), sent: all[:4], err: refused},
		"role refused":            {kind: "role", fault: repeat(refused, 1), sent: all[:2], err: refused},
		"path refused":            {kind: "path", fault: repeat(refused, 1), sent: all, fill: schema.Drawn},
		"path lost":               {kind: "path", fault: repeat(errLost, 1), sent: all[:3], err: errLost},
		"the first relation lost": {kind: "system", fault: repeat(errLost, 1), sent: all[:1], err: errLost},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				d := one()
				d.defaults, d.took, d.faults = []string{"s|t|id|a||7|23/-1|"}, test.took, map[string][]error{test.kind: test.fault}
				_, k := newProcess(t, Use{Maps: true}, nil)
				began := time.Now()
				read, err := k.read(d.query)
				if err != test.err || !slices.Equal(d.sent, test.sent) {
					t.Errorf("%v, want %v; sent %q, want %q", err, test.err, d.sent, test.sent)
				}
				if k.IsQuerying() != (err == nil) {
					t.Error("the reading counts wrongly")
				}
				if err != nil {
					return
				}
				base := k.base.Load()
				if base.role != "me" || !slices.Equal(base.path, []string{"$user", "public"}) || !base.relations[0].View || !read.at.Equal(began) {
					t.Errorf("%+v, read at %v", base, read.at)
				}
				if c := read.relations[len(read.relations)-1].Columns[0]; c.Fill != test.fill {
					t.Errorf("%+v", c)
				}
				d.sent, d.took, d.faults = nil, 0, nil
				if _, err := k.read(d.query); err != nil || !slices.Equal(d.sent, all[3:]) {
					t.Errorf("the second reading: %v, %q", err, d.sent)
				}
			})
		})
	}
}

// Only columns with a CHECK are mapped if the process marks them so, and rows of another form are refused.
func TestRowsOfAReading(t *testing.T) {
	t.Parallel()
	for _, checked := range []bool{false, true} {
		d := one()
		d.columns = []string{"s|t|a__byteahex|1|text|", "s|t|b__byteahex|2|checked|"}
		_, k := newProcess(t, Use{Maps: true, Checked: checked}, nil)
		read, err := k.read(d.query)
		if err != nil {
			t.Fatal(err)
		}
		if c := read.relations[1].Columns; c[0].Mapped == checked || !c[1].Mapped {
			t.Errorf("checked %v: %+v", checked, c)
		}
		d.columns = append([]string{"s|t|a"}, d.columns...)
		var refused *RefusedError
		if _, err := k.read(d.query); !errors.As(err, &refused) || refused.Code != "54000" {
			t.Errorf("a row of three values: %v", err)
		}
	}
}

// remedied is an error with a remedy.
type remedied struct{ error }

func (remedied) Remedy() string { return "Raise the limit." }

// The client's error says why the schema is unknown, with a hint for that.
func TestNotRead(t *testing.T) {
	t.Parallel()
	const hint = " Columns are mapped (rewrite.bytea), and what a name stands for must be known before the text is sent."
	refused := &RefusedError{"42501", "no"}
	for _, test := range []struct {
		cause   error
		want    wire.Error
		refused bool
	}{
		{errLost, wire.Error{Detail: "connection reset", Hint: "Retry." + hint}, false},
		{remedied{errLost}, wire.Error{Detail: "connection reset", Hint: "Raise the limit." + hint}, false},
		{refused, wire.Error{Detail: "the server said 42501: no", Hint: "Retry." + hint + " A database without mapped columns needs no reading with rewrite.bytea: off."}, true},
		{&NoAnswerError{remedied{errLost}}, wire.Error{Detail: "connection reset", Hint: "Raise the limit." + hint}, false},
	} {
		test.want.Code, test.want.Message = "53300", "the relations of the database could not be read"
		if got := NotRead(test.cause); *got != test.want || !IsNotRead(got) || isRefused(got) != test.refused {
			t.Errorf("%+v, want %+v", got, test.want)
		}
	}
	for _, other := range []error{nil, refused, errLost, &wire.Error{Code: "53300", Message: "too many", Detail: refused.Error()}} {
		if IsNotRead(other) || isRefused(other) {
			t.Errorf("%v counts as a schema that was not read", other)
		}
	}
}
