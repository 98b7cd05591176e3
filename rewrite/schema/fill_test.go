package schema

import "testing"

func TestFillOf(t *testing.T) {
	for expression, want := range map[string]DefaultKind{
		"": Settled, "0": Settled, "'x'::text": Settled, "'{}'::jsonb": Settled, "'2020-01-01'::date": Settled, "(1 + 2)": Settled, "lower('X'::text)": Settled, `"left"('X'::text, 1)`: Settled, `"left"((random())::text, 2)`: Drawn, `"mine"()`: Unclear,
		"nextval('s'::regclass)": Drawn, "gen_random_uuid()": Drawn, "(random() * (10)::double precision)": Drawn, "uuid_generate_v4()": Drawn,
		"md5((random())::text)": Drawn, "('a'::text || nextval('s'::regclass))": Drawn,
		"now()": Clock, "CURRENT_TIMESTAMP": Clock, "CURRENT_DATE": Clock, "timezone('utc'::text, now())": Clock, "('now'::text)::date": Clock,
		"'{today}'::date[]": Clock, "(now() + ((random())::text)::interval)": Clock, "clock_timestamp()": Clock,
		"(('no'::text || 'w'::text))::timestamp with time zone": Clock, "(lower('NOW'::text))::date": Clock, "(('{no'::text || 'w}'::text))::timestamp with time zone[]": Clock, "(('no'::text || 'w'::text))::mine": Clock,
		"('a'::text || 'w'::text)": Settled, "(('a'::text || 'w'::text))::character varying": Settled, "date_trunc('day'::text, '2026-01-01'::date)": Settled,
		"mine()": Unclear, "public.mine(1)": Unclear, `"Mine"()`: Unclear, "currval('s'::regclass)": Unclear, "lastval()": Unclear, "txid_current()": Unclear,
		"nextval('s'::regclass) + mine(2)": Unclear,
	} {
		if got := ClassifyDefault(expression); got != want {
			t.Errorf("%s: %d, want %d", expression, got, want)
		}
	}
}

// Columns have one Time if they have one value in a transaction, whatever its time and settings are.
func TestTimeOf(t *testing.T) {
	for expression, timed := range map[string]bool{
		"now()": true, "CURRENT_TIMESTAMP": true, "LOCALTIMESTAMP(3)": true, "timezone('utc'::text, now())": true, "(now() AT TIME ZONE 'utc'::text)": true,
		"(now())::date": true, "(now() + '1 day'::interval)": true, "date_trunc('day'::text, CURRENT_TIMESTAMP)": true, "(EXTRACT(epoch FROM now()))::bigint": true,
		"": false, "5": false, "'now'::text": false, "clock_timestamp()": false, "statement_timestamp()": false, "(now() + (random() * '1 day'::interval))": false,
		"public.now()": false, `"now"()`: false, "age(now())": false, "(now())::text || CURRENT_USER": false, "f(now())": false, "nextval('s')": false,
	} {
		if got := TimeOfDefault("1184/-1", expression); (got != "") != timed {
			t.Errorf("%s: %q", expression, got)
		}
	}
	if TimeOfDefault("1184/-1", "now()") == TimeOfDefault("1184/0", "now()") {
		t.Error("columns of two types have one value")
	}
}
