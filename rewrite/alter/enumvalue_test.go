package alter

import (
	"slices"
	"strings"
	"testing"
)

// A CHECK of a domain is read where it is a list of texts, and its like gets the next name that fits.
func TestDomainValues(t *testing.T) {
	long := strings.Repeat("x", 62) + "9"
	for _, test := range []struct{ name, shown, next, values string }{
		{"c", "CHECK ((VALUE = ANY (ARRAY['a'::text, 'it''s'::text, ''::text])))", "c1", "a|it's|"},
		{"c9", "CHECK ((VALUE = 'a'::text)) NOT VALID", "c10", "a"},
		{long, "CHECK ((VALUE = 'a'::text))", long[:61] + "10", "a"},
		{strings.Repeat("ä", 31) + "x", "CHECK ((VALUE = E'\\\\'::text))", strings.Repeat("ä", 31) + "1", `\`},
		{"c", "CHECK (((VALUE)::text = ANY ((ARRAY['a'::character varying])::text[])))", "", ""},
		{"c", "CHECK ((VALUE = 1))", "", ""},
		{"c", "CHECK ((VALUE = now()))", "", ""},
		{"c", "CHECK ((VALUE = (1)::text))", "", ""},
		{"c", "CHECK ((VALUE <> 'a'::text))", "", ""},
		{"c", "CHECK ((VALUE <> ALL (ARRAY['a'::text])))", "", ""},
		{"c", "CHECK ((lower(VALUE) = 'a'::text))", "", ""},
		{"c", "CHECK (f(VALUE))", "", ""},
		{"c", "CHECK ((VALUE = ANY (ARRAY['a'::text, b])))", "", ""},
		{"c", "NOT NULL VALUE", "", ""},
		{"c01", "CHECK ((VALUE = 'a'::text))", "", ""},
	} {
		d := ParseDomainCheck(test.name, test.shown)
		switch {
		case (d != nil) != (test.next != ""):
			t.Errorf("%s %s: %v", test.name, test.shown, d)
		case d != nil && (d.NextName() != test.next || strings.Join(d.Values, "|") != test.values || len(d.NextName()) > 63):
			t.Errorf("%s: %q, next %q", test.shown, d.Values, d.NextName())
		}
	}
}

// What is read of ALTER TYPE ... ADD VALUE, whatever the names.
func TestEnumValues(t *testing.T) {
	values := []string{"a", "", "b"}
	for sql, want := range map[string]string{
		"ALTER TYPE mood ADD VALUE 'x'":                                  `"mood" a,,b,x`,
		"alter type add.value add value if not exists 'it''s' before ''": `"add"."value" a,it's,,b`,
		`ALTER TYPE "rename""" ADD VALUE '' AFTER 'a'`:                   `"rename""" a,,,b`,
		`ALTER TYPE s."before" ADD VALUE 'before'`:                       `"s"."before" a,,b,before`,
		`ALTER TYPE mood ADD VALUE E'\\' AFTER $$b$$;`:                   `"mood" a,,b,\`,
		"ALTER TYPE mood RENAME VALUE 'a' TO 'b'":                        "",
		"ALTER TYPE mood ADD VALUE 'x' -- behind":                        `"mood" a,,b,x`,
		"ALTER TYPE mood /* add */ ADD VALUE 'x'":                        "",
		"ALTER TYPE a.b.c ADD VALUE 'x'":                                 "",
		"ALTER TYPE mood ADD VALUE 'x'; SELECT 1":                        "",
	} {
		got := ""
		d := draftOf(t, sql, Rules{Dialect: true, Enums: true})
		d.AddEnumValue()
		if e, is := d.Steps.(*EnumValueAddition); is {
			got = e.Type + " " + strings.Join(e.WithValue(slices.Clone(values)), ",")
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", sql, got, want)
		}
	}
}
