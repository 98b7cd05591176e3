package serversettings

import (
	"testing"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// TestParsingKeys checks whether the key of a transaction's next text differs from that before a turn, and by which
// settings of constants.
func TestParsingKeys(t *testing.T) {
	datestyle := parse.InputSettingsNamed("datestyle")
	change := func(of ...rewrite.SettingChange) rewrite.Statement { return rewrite.Statement{Changes: of} }
	call, plain := rewrite.Statement{Calls: true}, rewrite.Statement{}
	tests := map[string]struct {
		statements []rewrite.Statement
		report     [2]string // a parameter and its value, while the turn runs
		during     bool      // the key differs while the turn runs
		after      bool      // the key differs after the turn
		constants  parse.InputSettings
	}{
		"a plain statement":         {statements: []rewrite.Statement{plain}},
		"SET DateStyle":             {statements: []rewrite.Statement{change(set("datestyle", "DMY"))}, during: true, after: true, constants: datestyle},
		"SET of another setting":    {statements: []rewrite.Statement{change(set("work_mem", "9MB"))}, during: true, after: true},
		"RESET ALL":                 {statements: []rewrite.Statement{change(rewrite.SettingChange{Action: rewrite.ResetAll})}, during: true, after: true, constants: allConstantSettings},
		"a change without a name":   {statements: []rewrite.Statement{change(rewrite.SettingChange{Action: rewrite.Set})}, during: true, after: true, constants: allConstantSettings},
		"a SET beside a call":       {statements: []rewrite.Statement{change(set("datestyle", "DMY")), call}, during: true, after: true, constants: allConstantSettings},
		"a call":                    {statements: []rewrite.Statement{call}, during: true},
		"a call, reported":          {statements: []rewrite.Statement{call}, report: [2]string{"DateStyle", "SQL, DMY"}, during: true, after: true, constants: allConstantSettings},
		"a call, another parameter": {statements: []rewrite.Statement{call}, report: [2]string{"application_name", "batch"}, during: true},
		"a report without a call":   {statements: []rewrite.Statement{plain}, report: [2]string{"DateStyle", "SQL, DMY"}, after: true, constants: allConstantSettings},
	}
	for name, test := range tests {
		v := newTestShared(true)
		b := v.NewBackend(serverParams)
		inForce := newTestValues(map[string]string{"datestyle": "MDY"})
		var p TxParsing
		var turn TurnParsing
		turn.Begin(&b)
		turn.Record(v, &p, inForce, test.statements)
		if got := p.Key(inForce) != inForce.Parsing; got != test.during {
			t.Errorf("%s: another key during the turn: %v", name, got)
		}
		if test.report[0] != "" {
			b.RecordParameter(test.report[0], test.report[1])
		}
		turn.Settle(&p, &b, inForce)
		key := p.Key(inForce)
		if got := key != inForce.Parsing; got != test.after || got && key.All&1 == 0 {
			t.Errorf("%s: another key after the turn: %v (%x)", name, got, key.All)
		}
		if got := key.Constants.Differing(inForce.Parsing.Constants); got != test.constants {
			t.Errorf("%s: other constants by %b, want %b", name, got, test.constants)
		}
	}
}

// TestParsingKeysDiffer checks that no two transactions have one key, and that a savepoint returns to its key.
func TestParsingKeysDiffer(t *testing.T) {
	v := newTestShared(true)
	var none *settings.Values = v.NewClient().InForce
	var first, second TxParsing
	v.RenewParsing(&first, none, []rewrite.SettingChange{set("datestyle", "DMY")})
	v.RenewParsing(&second, none, []rewrite.SettingChange{set("datestyle", "DMY")})
	if first.Key(none) == second.Key(none) || first == (TxParsing{}) {
		t.Errorf("%+v and %+v", first, second)
	}
	mark := first
	v.RenewParsing(&first, none, []rewrite.SettingChange{set("search_path", "a")})
	if was := mark.Key(none); first == mark || first.Key(none).Constants != was.Constants {
		t.Errorf("behind another setting: %+v, was %+v", first, mark)
	}
}

// TestGuessesOfOneTurn checks that a second call of a turn does not replace the key from before the first.
func TestGuessesOfOneTurn(t *testing.T) {
	v := newTestShared(true)
	b := v.NewBackend(serverParams)
	none := v.NewClient().InForce
	var p TxParsing
	var turn TurnParsing
	turn.Begin(&b)
	for range 2 {
		turn.Record(v, &p, none, []rewrite.Statement{{Calls: true}})
	}
	if turn.Settle(&p, &b, none); p != (TxParsing{}) {
		t.Errorf("the key after two guesses: %+v", p)
	}
}
