package catalog

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// The rows of the two queries make relations with their keys, their mapped columns, and how the server fills columns.
func TestRelationsOfRows(t *testing.T) {
	t.Parallel()
	b := RelationBuilder{Checked: true}
	for _, row := range []string{"s t a 1 | {3,1}", "s t k__byteahex 3 checked {3,1}", "s t x__byteahex 4 text {3,1}", "s v  |  "} {
		if err := b.AddRow(strings.Split(strings.ReplaceAll(row, "|", ""), " ")); err != nil {
			t.Fatal(err)
		}
	}
	var d Defaults
	for _, row := range []string{"s.t.a.a..7.23/-1.", "s.t.k__byteahex...7.25/-1.nextval('q')", "s.v......", "s.t.x__byteahex..s.7.1184/-1."} {
		if err := d.AddRow(strings.ReplaceAll(row, ".", fieldSeparator)); err != nil {
			t.Fatal(err)
		}
	}
	d.Apply(b.Relations)
	want := []schema.Relation{
		{Schema: "s", Name: "t", ID: "7", Key: []string{"k", "a"}, Columns: []schema.Column{{Name: "a", Fill: schema.Drawn, Always: true},
			{Name: "k", Mapped: true, Fill: schema.Drawn}, {Name: "x__byteahex", Computed: true, Kind: "1184/-1"}}},
		{Schema: "s", Name: "v", View: true},
	}
	if !reflect.DeepEqual(b.Relations, want) {
		t.Errorf("%+v, want %+v", b.Relations, want)
	}
	if b.AddRow(nil) == nil || d.AddRow("a") == nil {
		t.Error("a row of another form is taken")
	}
}
