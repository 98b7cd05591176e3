package schema

import "testing"

func TestNamesByAnUnknownPath(t *testing.T) {
	t.Parallel()
	unknown := New([]Relation{{Schema: "public", Name: "t"}, {Schema: "other", Name: "o"}}).InUnknown()
	if !unknown.knows("", "o") || unknown.knows("", "x") {
		t.Error("by an unknown path every schema's names are known, and no others")
	}
}

func TestLacksAllocatesNothing(t *testing.T) {
	names := New([]Relation{{Schema: "public", Name: "t"}, {Schema: "public", Name: "u"}}).In([]string{"public"})
	sql := []byte("SELECT a, b FROM t, public.u WHERE a = $1")
	if n := testing.AllocsPerRun(100, func() { names.NeedsTree(sql) }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
