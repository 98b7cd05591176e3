package pgtest

import (
	"slices"
	"strings"
	"testing"
)

// Each kind of difference shows in the lines.
func TestSchemaDifferences(t *testing.T) {
	const plain = `--
-- PostgreSQL database dump
--
SET statement_timeout = 0;
SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.a (
    id integer NOT NULL,
    n numeric,
    name text DEFAULT 'x;y,'::text
);
ALTER TABLE ONLY public.a
    ADD CONSTRAINT a_pkey PRIMARY KEY (id);
CREATE INDEX a_n ON public.a USING btree (n DESC);
`
	through := strings.NewReplacer("n numeric", "n numeric(128,38)", " DESC", "", "id integer NOT NULL,\n    ", "").Replace(plain)
	through = strings.Replace(through, "'::text\n", "'::text,\n    id integer NOT NULL\n", 1) // the last column
	want := []string{
		"- CREATE INDEX a_n ON public.a USING btree (n DESC)", "+ CREATE INDEX a_n ON public.a USING btree (n)",
		"- public.a: n numeric", "+ public.a: n numeric(128,38)",
	}
	got := SchemaDifferences(schemaLines(plain), schemaLines(through))
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
