package request

import (
	"bytes"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

func encode(t testing.TB, frames ...pgproto3.FrontendMessage) (b []byte) {
	t.Helper()
	for _, f := range frames {
		var err error
		if b, err = f.Encode(b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func codeOf(err error) string {
	if e, ok := err.(*wire.Error); ok && e != nil {
		return e.Code
	}
	return ""
}

// TestBind reads the names, the parameters and the formats of a Bind, whole and cut at each byte.
func TestBind(t *testing.T) {
	frame := encode(t, &pgproto3.Bind{DestinationPortal: "p", PreparedStatement: "s", ParameterFormatCodes: []int16{0, 1},
		Parameters: [][]byte{[]byte("one"), []byte("two")}, ResultFormatCodes: []int16{1}})
	portal, statement, rest, ok := SplitBindNames(frame[wire.HeaderLen:])
	if string(portal) != "p" || string(statement) != "s" || !ok {
		t.Fatalf("%q, %q, %v", portal, statement, ok)
	}
	if n, err := BindParamCount(rest); n != 2 || err != nil {
		t.Errorf("%d parameters, %v", n, err)
	}
	if err := ValidateBind(rest, 2, statement); err != nil {
		t.Error(err)
	}
	values, formats, err := TextParams(rest, 2, statement)
	if !slices.Equal(values, []string{"one", "two"}) || !bytes.Equal(formats, []byte{0, 1, 0, 1}) || err != nil {
		t.Errorf("%q, %v, %v", values, formats, err)
	}
	for n := range rest {
		if ValidateBind(rest[:n], 2, statement) == nil {
			t.Errorf("cut at %d, the Bind is valid", n)
		}
	}
	for n := range len("p\x00s\x00") {
		if _, _, _, ok := SplitBindNames(frame[wire.HeaderLen:][:n]); ok {
			t.Errorf("cut at %d, the Bind has its names", n)
		}
	}
}

// TestRefusedBinds has the SQLSTATEs of Binds that PostgreSQL refuses.
func TestRefusedBinds(t *testing.T) {
	two := [][]byte{[]byte("one"), []byte("two")}
	for name, test := range map[string]struct {
		bind pgproto3.Bind
		code string
	}{
		"too few":           {pgproto3.Bind{Parameters: two[:1]}, "08P01"},
		"too many":          {pgproto3.Bind{Parameters: append(two, nil)}, "08P01"},
		"formats":           {pgproto3.Bind{ParameterFormatCodes: []int16{0, 0, 0}, Parameters: two}, "08P01"},
		"an unknown format": {pgproto3.Bind{ParameterFormatCodes: []int16{2}, Parameters: two}, "22023"},
		"NULL":              {pgproto3.Bind{Parameters: [][]byte{nil, nil}}, "0A000"},
		"no text":           {pgproto3.Bind{Parameters: [][]byte{[]byte("a"), {0xff}}}, "22021"},
		"a zero":            {pgproto3.Bind{Parameters: [][]byte{[]byte("a"), {'b', 0}}}, "22021"},
	} {
		_, _, rest, _ := SplitBindNames(encode(t, &test.bind)[wire.HeaderLen:])
		if _, _, err := TextParams(rest, 2, []byte("s")); codeOf(err) != test.code {
			t.Errorf("%s: %v, want %s", name, err, test.code)
		}
	}
}

func TestParseAndTargets(t *testing.T) {
	frame := encode(t, &pgproto3.Parse{Name: "s", Query: "SELECT $1", ParameterOIDs: []uint32{23}})
	name, sql, oids, err := SplitParse(frame)
	if string(name) != "s" || string(sql) != "SELECT $1" || !bytes.Equal(oids, []byte{0, 1, 0, 0, 0, 23}) || err != nil {
		t.Errorf("%q, %q, %v, %v", name, sql, oids, err)
	}
	if _, _, _, err := SplitParse(frame[:len(frame)-1]); codeOf(err) != "08P01" {
		t.Errorf("a short Parse: %v", err)
	}
	for _, test := range []struct {
		frame pgproto3.FrontendMessage
		what  byte
	}{{&pgproto3.Describe{ObjectType: 'S', Name: "a"}, 'S'}, {&pgproto3.Close{ObjectType: 'P', Name: "a"}, 'P'}, {&pgproto3.Describe{ObjectType: 'Z', Name: "a"}, 0}} {
		what, name, err := ParseTarget(encode(t, test.frame), "DESCRIBE")
		if what != test.what || (err == nil) != (what != 0) || err == nil && string(name) != "a" {
			t.Errorf("%+v: %c, %q, %v", test.frame, what, name, err)
		}
	}
	if b := AppendBindWithoutParams([]byte("x"), "s"); !bytes.Equal(b[1:], encode(t, &pgproto3.Bind{PreparedStatement: "s"})) {
		t.Errorf("a Bind without parameters: %q", b)
	}
}

// TestUsesOnly asks whether a request that has arrived, up to its Sync, uses the statement s alone.
func TestUsesOnly(t *testing.T) {
	bind, run, sync := &pgproto3.Bind{PreparedStatement: "s"}, &pgproto3.Execute{}, &pgproto3.Sync{}
	for _, test := range []struct {
		frames []pgproto3.FrontendMessage
		want   bool
	}{
		{[]pgproto3.FrontendMessage{bind, &pgproto3.Describe{ObjectType: 'P'}, run, sync}, true},
		{[]pgproto3.FrontendMessage{&pgproto3.Describe{ObjectType: 'S', Name: "s"}, bind, run, &pgproto3.Flush{}, &pgproto3.Close{ObjectType: 'P'}, sync}, true},
		{[]pgproto3.FrontendMessage{bind, run}, false}, {nil, false},
		{[]pgproto3.FrontendMessage{&pgproto3.Bind{PreparedStatement: "t"}, run, sync}, false},
		{[]pgproto3.FrontendMessage{bind, &pgproto3.Describe{ObjectType: 'S', Name: "t"}, sync}, false},
		{[]pgproto3.FrontendMessage{bind, &pgproto3.Close{ObjectType: 'S', Name: "s"}, sync}, false},
		{[]pgproto3.FrontendMessage{bind, &pgproto3.Parse{Name: "t"}, sync}, false}, {[]pgproto3.FrontendMessage{bind, &pgproto3.Describe{ObjectType: 'Z'}, sync}, false},
	} {
		if got := UsesOnly(encode(t, test.frames...), func(name []byte) bool { return string(name) == "s" }); got != test.want {
			t.Errorf("%+v: %v", test.frames, got)
		}
	}
}

// FuzzFrames holds that no frame of a client is read beyond its end, and that what a Bind gives is in the Bind.
func FuzzFrames(f *testing.F) {
	f.Add(encode(f, &pgproto3.Bind{DestinationPortal: "p", Parameters: [][]byte{[]byte("a")}}), uint8(1))
	f.Add(encode(f, &pgproto3.Parse{Name: "s", Query: "SELECT 1"}, &pgproto3.Sync{}), uint8(0))
	f.Add([]byte{'B', 0, 0, 0, 12, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff}, uint8(2))
	f.Fuzz(func(t *testing.T, frame []byte, params uint8) {
		UsesOnly(frame, func([]byte) bool { return true })
		if len(frame) < wire.HeaderLen {
			return
		}
		SplitParse(frame)
		ParseTarget(frame, "CLOSE")
		_, statement, rest, ok := SplitBindNames(frame[wire.HeaderLen:])
		if !ok {
			return
		}
		values, formats, err := TextParams(rest, int(params), statement)
		size := len(formats)
		for _, v := range values {
			size += len(v)
		}
		if err == nil && (len(values) != int(params) || size > len(rest)) {
			t.Errorf("%q: %q, %v", rest, values, formats)
		}
	})
}
