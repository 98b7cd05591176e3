package parse

import (
	"fmt"
	"slices"
	"testing"
)

func TestScript(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                       nil,
		" ;; -- x\n;":            nil,
		"SELECT 1":               {"1 SELECT 1"},
		"SELECT 1;\n\nSELECT 2;": {"1 SELECT 1", "3 SELECT 2"},
		"-- c\n/* ; */ SELECT ';', $$;$$, \";\" -- ;\n;x":         {"2 SELECT ';', $$;$$, \";\" -- ;", "3 x"},
		"\\connect d\nSELECT 1;\n\\set x 'y\nSELECT 2":            {"2 SELECT 1", "4 SELECT 2"},
		"COPY t FROM stdin;\n1\t;'\n\\.\nSELECT 1;":               {"1 COPY t FROM stdin", "4 SELECT 1"},
		"COPY t (a) FROM STDIN WITH (FORMAT csv);\n\\.\nSELECT 1": {"1 COPY t (a) FROM STDIN WITH (FORMAT csv)", "3 SELECT 1"},
		"COPY t FROM '/x';\nSELECT 1;":                            {"1 COPY t FROM '/x'", "2 SELECT 1"},
		"COPY t FROM STDIN;\nSELECT 1;":                           {"1 COPY t FROM STDIN", "2 SELECT 1"},
		"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN a THEN b END; END; SELECT 1": {
			"1 CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN a THEN b END; END", "1 SELECT 1"},
		"CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3": {"1 CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)", "1 SELECT 3"},
		"BEGIN; SELECT 1; END; x":            {"1 BEGIN", "1 SELECT 1", "1 END", "1 x"},
		"SELECT 1;\nSELECT 'open;\nSELECT 2": {"1 SELECT 1", "2 SELECT 'open;\nSELECT 2"},
		"SELECT 1;\n/* open;\nSELECT 2":      {"1 SELECT 1", "1 /* open;\nSELECT 2"},
		"SELECT 1;; /* open;":                {"1 SELECT 1", "1 /* open;"},
		"\\echo\n /* open;":                  {"1 /* open;"},
		"SELECT '\xff';\nx":                  {"1 SELECT '\xff'", "2 x"},
	} {
		var got []string
		for s := range SplitScript(text) {
			got = append(got, fmt.Sprintf("%d %s", s.Line, s.SQL))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q\n got  %q\n want %q", text, got, want)
		}
	}
}
