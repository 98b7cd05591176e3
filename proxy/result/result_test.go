package result

import (
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// decode decodes frames as a client does.
func decode(t *testing.T, frames []byte) (all []pgproto3.BackendMessage) {
	t.Helper()
	client := pgproto3.NewFrontend(strings.NewReader(string(frames)), nil)
	for client.ReadBufferLen() > 0 || len(all) == 0 {
		m, err := client.Receive()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// plan plans a text of one statement.
func plan(t *testing.T, sql string) *rewrite.Statement {
	t.Helper()
	config := rewrite.Defaults()
	config.Rules = rewrite.AllRules()
	config.Rules.Advisory, config.Rules.Named = true, true
	p, err := rewrite.New(config)
	if err != nil {
		t.Fatal(err)
	}
	st := p.Plan([]byte(sql)).SingleStatement()
	if st == nil {
		t.Fatalf("%q is not one statement", sql)
	}
	return st
}

func TestRows(t *testing.T) {
	if got, want := decode(t, TextRow("a", "", "ccc"))[0], (&pgproto3.DataRow{Values: [][]byte{[]byte("a"), {}, []byte("ccc")}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got, want := decode(t, NullRow())[0], (&pgproto3.DataRow{Values: [][]byte{nil}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	got := decode(t, DescribeColumns(text, -1, "a", "b"))[0].(*pgproto3.RowDescription)
	for i, name := range []string{"a", "b"} {
		want := pgproto3.FieldDescription{Name: []byte(name), DataTypeOID: text, DataTypeSize: -1, TypeModifier: -1}
		if !reflect.DeepEqual(got.Fields[i], want) {
			t.Errorf("%+v", got.Fields[i])
		}
	}
}

// Functions of advisory locks return void or boolean, in text or in binary.
func TestLockRow(t *testing.T) {
	for _, c := range []struct {
		sql        string
		ok, binary bool
		oid        uint32
		value      string
	}{
		{"SELECT pg_advisory_lock(1)", true, false, void, ""},
		{"SELECT pg_advisory_lock(1)", true, true, void, ""},
		{"SELECT pg_advisory_unlock_all()", true, false, void, ""},
		{"SELECT pg_try_advisory_lock(1)", true, false, boolean, "t"},
		{"SELECT pg_try_advisory_lock(1)", false, false, boolean, "f"},
		{"SELECT pg_advisory_unlock(1)", true, true, boolean, "\x01"},
		{"SELECT pg_advisory_unlock(1)", false, true, boolean, "\x00"},
	} {
		st := plan(t, c.sql)
		if st.Advisory == nil {
			t.Fatalf("%q calls no function of advisory locks", c.sql)
		}
		row := decode(t, LockRow(st.Advisory, c.ok, c.binary))[0].(*pgproto3.DataRow)
		columns := decode(t, DescribeLockFormat(st.Advisory, c.binary))[0].(*pgproto3.RowDescription)
		if got := columns.Fields[0]; got.DataTypeOID != c.oid || (got.Format == 1) != c.binary || len(row.Values) != 1 || string(row.Values[0]) != c.value {
			t.Errorf("%s: %+v, %q", c.sql, got, row.Values)
		}
	}
}

// Parameters that a Parse declared are described as declared.
func TestParameters(t *testing.T) {
	for _, c := range []struct {
		oids string
		want []uint32
	}{
		{"", nil},
		{"\x00\x00", nil},
		{"\x00\x02\x00\x00\x00\x17\x00\x00\x00\x19", []uint32{23, 25}},
	} {
		got := decode(t, DescribeDeclaredParams(c.oids))[0].(*pgproto3.ParameterDescription)
		if len(got.ParameterOIDs) != len(c.want) || len(c.want) > 0 && !reflect.DeepEqual(got.ParameterOIDs, c.want) || DeclaredParamCount(c.oids) != len(c.want) {
			t.Errorf("%q: %v", c.oids, got.ParameterOIDs)
		}
	}
	if got := decode(t, DescribeParams([]uint32{20, 16}))[0].(*pgproto3.ParameterDescription); !reflect.DeepEqual(got.ParameterOIDs, []uint32{20, 16}) {
		t.Errorf("%v", got.ParameterOIDs)
	}
	st := plan(t, "SELECT set_config('DateStyle', $1, false), set_config('TimeZone', $2, false)")
	for _, c := range []struct {
		oids string
		want []uint32 // nil: refused
	}{
		{"", []uint32{text, text}},
		{"\x00\x01\x00\x00\x00\x19", []uint32{text, text}},
		{"\x00\x02\x00\x00\x00\x00\x00\x00\x04\x13", []uint32{text, 1043}},
		{"\x00\x01\x00\x00\x00\x17", nil}, // an integer
		{"\x00\x03\x00\x00\x00\x19\x00\x00\x00\x19\x00\x00\x00\x19", nil},
	} {
		frame, err := DescribeConfigParams(st, c.oids)
		if (err == nil) != (c.want != nil) {
			t.Errorf("%q: %v", c.oids, err)
			continue
		}
		if err != nil {
			continue
		}
		if got := decode(t, frame)[0].(*pgproto3.ParameterDescription); !reflect.DeepEqual(got.ParameterOIDs, c.want) {
			t.Errorf("%q: %v", c.oids, got.ParameterOIDs)
		}
	}
	// A statement that returns no rows is described without the server if all types are declared.
	for sql, want := range map[string]bool{"INSERT INTO t VALUES ($1)": true, "SELECT $1": false, "INSERT INTO t VALUES ($1, $2)": false} {
		if got := DescribeRowless(sql, "\x00\x01\x00\x00\x00\x17") != nil; got != want {
			t.Errorf("%s: described %v", sql, got)
		}
	}
	if DescribeRowless("INSERT INTO t VALUES ($1)", "\x00\x01\x00\x00\x00\x00") != nil {
		t.Error("a parameter without a type is described")
	}
}

// Tags are PostgreSQL's.
func TestTags(t *testing.T) {
	for sql, want := range map[string]string{"SET a.b = 1": "SET", "SET a.b TO DEFAULT": "SET", "RESET a.b": "RESET", "RESET ALL": "RESET", "DISCARD ALL": "DISCARD ALL"} {
		if got := SettingTag(plan(t, sql)); got != want {
			t.Errorf("%s: %s", sql, got)
		}
	}
	if got := ConstantTag("SHOW")(nil); got != "SHOW" {
		t.Error(got)
	}
	for sql, want := range map[string]string{"FETCH 1 FROM c": "FETCH 0", "CLOSE c": ""} {
		if got := RepeatedFetchTag(plan(t, sql)); got != want {
			t.Errorf("%s again: %q", sql, got)
		}
	}
	if got := DescribeOrNoData(nil, nil); got[0] != wire.NoData {
		t.Errorf("no columns: %q", got)
	}
}
