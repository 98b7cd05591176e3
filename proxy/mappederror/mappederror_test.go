package mappederror

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// What errors about mapped columns say is said of the client's columns and values; what
// cannot be told apart stays as it is.
func TestErrorsOfMappedColumns(t *testing.T) {
	t.Parallel()
	row := &schema.Relation{Columns: []schema.Column{{Name: "a"}, {Name: "k", Mapped: true}, {Name: "v"}}}
	hex := strings.Repeat("61", 32)
	for _, c := range []struct {
		code      byte
		text, out string
	}{
		{'M', `column "k__byteahex" of relation "t" does not exist`, `column "k" of relation "t" does not exist`},
		{'M', `null value in column "k__byteahex" of relation "t" violates not-null constraint`, `null value in column "k" of relation "t" violates not-null constraint`},
		{'M', `column t.k__byteahex does not exist`, `column t.k does not exist`},
		{'M', `relation "k__byteahexes" and "__byteahex"`, `relation "k__byteahexes" and ""`},
		{'M', `__byteahex`, `__byteahex`},
		{'H', `Perhaps you meant to reference the column "t.k__byteahex".`, `Perhaps you meant to reference the column "t.k".`},
		{'c', "k__byteahex", "k"},
		{'n', "k__byteahex", "k"},
		{'t', "k__byteahex", "k__byteahex"},
		{'D', `Key (a, k__byteahex)=(1, 61) already exists.`, `Key (a, k)=(1, \x61) already exists.`},
		{'D', `Key (k__byteahex)=() already exists.`, `Key (k)=(\x) already exists.`},
		{'D', `Key (k__byteahex, a)=(null, 1) is not present in table "u".`, `Key (k, a)=(null, 1) is not present in table "u".`},
		{'D', `Key (a, k__byteahex)=(x) already exists., 00ff) is still referenced from table "u".`, `Key (a, k)=(x) already exists., \x00ff) is still referenced from table "u".`},
		{'D', `Key (a, k__byteahex)=(x, y, 61) already exists.`, `Key (a, k__byteahex)=(x, y, 61) already exists.`},
		{'D', `Key (a)=(61) already exists.`, `Key (a)=(61) already exists.`},
		{'D', `Failing row contains (1, 61, 61).`, `Failing row contains (1, \x61, 61).`},
		{'D', `Failing row contains (1, null, null).`, `Failing row contains (1, null, null).`},
		{'D', `Failing row contains (1, 61, a, b).`, `Failing row contains (1, 61, a, b).`},
		{'D', `Failing row contains (1, ` + hex + `, c).`, `Failing row contains (1, \x` + hex[:62] + `..., c).`},
		{'D', `Failing row contains (1, ` + hex + `..., c).`, `Failing row contains (1, \x` + hex[:62] + `..., c).`},
		{'D', `Column "k__byteahex" is too wide.`, `Column "k" is too wide.`},
	} {
		if got := string(Renamer{true, row}.RenameInField(c.code, []byte(c.text))); got != c.out {
			t.Errorf("%c %s:\ngot  %s\nwant %s", c.code, c.text, got, c.out)
		}
		if got := string(Renamer{}.RenameInField(c.code, []byte(c.text))); got != c.text {
			t.Errorf("not mapped: %s became %s", c.text, got)
		}
	}
}
