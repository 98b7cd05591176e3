package rewrite

import "testing"

// Each text that the relay may send in the place of an ALTER TABLE has the precision: that of a statement of
// several commands, too, which goes to the server first.
func TestNumericInEveryText(t *testing.T) {
	t.Parallel()
	config := Defaults()
	config.Rules.InTransactions, config.Rules.Retype, config.Rules.Backfill, config.Rules.NotNullCheck = CommitDDL, true, true, true
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		"ALTER TABLE t ADD COLUMN a numeric, ALTER COLUMN b SET NOT NULL, ALTER COLUMN c TYPE decimal": "ALTER TABLE t ADD COLUMN a numeric(128,38), ALTER COLUMN b SET NOT NULL, ALTER COLUMN c TYPE decimal(128,38)",
		"ALTER TABLE t ADD COLUMN a numeric(9,2), ALTER COLUMN b TYPE bigint":                          "ALTER TABLE t ADD COLUMN a numeric(9,2), ALTER COLUMN b TYPE bigint",
		"ALTER TABLE t ADD COLUMN a numeric UNIQUE":                                                    "ALTER TABLE t ADD COLUMN a numeric(128,38) UNIQUE",
		"ALTER TABLE t ADD COLUMN a pg_catalog.numeric DEFAULT 1":                                      "ALTER TABLE t ADD COLUMN a pg_catalog.numeric(128,38) DEFAULT 1",
		"ALTER TABLE t ALTER COLUMN a TYPE numeric":                                                    "ALTER TABLE t ALTER COLUMN a TYPE numeric(128,38)",
	} {
		st := p.Plan([]byte(sql)).SingleStatement()
		if st == nil || !st.MayRunInSteps() {
			t.Errorf("%s: %+v", sql, st)
		} else if text, _ := st.StepTextAndTag(); text != want {
			t.Errorf("%s: %s, want %s", sql, text, want)
		}
	}
}
