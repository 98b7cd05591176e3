package schema

import "testing"

func TestNamesByAnUnknownPath(t *testing.T) {
	t.Parallel()
	unknown := New([]Relation{{Schema: "public", Name: "t"}, {Schema: "other", Name: "o"}}).ResolverForUnknownPath()
	if !unknown.isKnownRelation("", "o") || unknown.isKnownRelation("", "x") {
		t.Error("by an unknown path every schema's names are known, and no others")
	}
}

func TestLacksAllocatesNothing(t *testing.T) {
	names := New([]Relation{{Schema: "public", Name: "t"}, {Schema: "public", Name: "u"}}).ResolverFor([]string{"public"})
	sql := []byte("SELECT a, b FROM t, public.u WHERE a = $1")
	if n := testing.AllocsPerRun(100, func() { names.NeedsParse(sql) }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
