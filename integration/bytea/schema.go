package bytea

import (
	"fmt"
	"slices"
	"strings"
)

// Column describes one column of a table or view in a random schema.
type Column struct {
	Name    string
	Type    Type
	NotNull bool
	Default string // an expression, or ""
	// Mapped means that the column is of type bytea and in a key, so that the mapped database stores it as text.
	Mapped bool
}

// Key is a primary key or a unique constraint.
type Key struct {
	Name    string
	Primary bool
	Columns []string
}

// Table is a table or a view of a world (a random schema).
type Table struct {
	Name    string
	Columns []Column
	Keys    []Key
	Checks  []string // with %s where the column stands
	Checked []string // the columns of Checks
	Of      *Table   // of a view, what it shows
	Where   string   // and the condition, with %s where its first column stands
}

// TestSchema is a random schema, with the values that its statements use.
type TestSchema struct {
	Tables []*Table // the views are behind the tables
	values [][]byte
}

var (
	tableNames  = []string{"t", "u", "Order", "select", "Mixed Case", `q"t`, "event", "a.b", "k", "excluded_", "naïve"}
	columnNames = []string{"k", "id", "n", "v", "ID", "user", "K k", "data", "value", "group", "é", "decode", "t", "c.d", `q"c`, "x", "a_name_of_fifty_three_bytes_which_is_all_there_can_be"}
)

// QuoteIdent returns a name as SQL, quoted if necessary.
func QuoteIdent(name string) string {
	plain := name != "" && !slices.Contains([]string{"select", "user", "group"}, name)
	for i, c := range name {
		if (c < 'a' || c > 'z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			plain = false
		}
	}
	if plain {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

func joinIdents(names []string) string {
	var all []string
	for _, n := range names {
		all = append(all, QuoteIdent(n))
	}
	return strings.Join(all, ", ")
}

// shuffledNames returns n of the names, in random order.
func shuffledNames(d *choiceSequence, names []string, n int) []string {
	names = slices.Clone(names)
	for i := range min(n, len(names)) {
		k := i + d.intBelow(len(names)-i)
		names[i], names[k] = names[k], names[i]
	}
	return names[:min(n, len(names))]
}

// NewTestSchema generates the random schema of world n. Equal seed and n give an equal schema.
func NewTestSchema(seed, n uint64) *TestSchema {
	d := newChoiceSequence(seed, n<<32)
	w := &TestSchema{}
	var values [][]byte
	for range 6 {
		values = append(values, w.drawBytes(d))
	}
	w.values = slices.SortedFunc(slices.Values(values), func(a, b []byte) int { return len(a) - len(b) })
	for _, name := range shuffledNames(d, tableNames, 1+d.intBelow(4)) {
		w.Tables = append(w.Tables, w.newTable(d, name))
	}
	for i := range d.intBelow(3) {
		t := w.Tables[d.intBelow(len(w.Tables))]
		if t.Of == nil {
			w.Tables = append(w.Tables, newView(d, t, fmt.Sprintf("view%d", i)))
		}
	}
	return w
}

func (w *TestSchema) newTable(d *choiceSequence, name string) *Table {
	t := &Table{Name: name}
	// The names at the start of the list are more likely, so that tables share column names.
	for _, name := range shuffledNames(d, columnNames[:pickOne(d, 6, 8, len(columnNames))], 2+d.intBelow(5)) {
		t.Columns = append(t.Columns, Column{Name: name, Type: pickOne(d, Bytea, Bytea, Bytea, Int, Text, Bool, Bigint), NotNull: d.chance(20)})
	}
	key := t.newKey(d, true)
	t.Keys = append(t.Keys, key)
	for d.chance(40) && len(t.Keys) < 3 {
		if key := t.newKey(d, false); !slices.ContainsFunc(t.Keys, func(k Key) bool { return slices.Equal(k.Columns, key.Columns) }) {
			t.Keys = append(t.Keys, key)
		}
	}
	for i := range t.Columns {
		w.addConstraints(d, t, &t.Columns[i])
	}
	return t
}

// newKey generates a primary key or a unique constraint, in most cases with a bytea column if the table has one.
func (t *Table) newKey(d *choiceSequence, primary bool) Key {
	var names []string
	for _, c := range shuffledNames(d, t.columnNames(), len(t.Columns)) {
		bytea := t.columnByName(c).Type == Bytea
		if len(names) < 1+d.intBelow(3) && (bytea || d.chance(40)) {
			names = append(names, c)
		}
	}
	if len(names) == 0 {
		names = t.columnNames()[:1]
	}
	for _, n := range names {
		c := t.columnByName(n)
		c.Mapped = c.Type == Bytea
		c.NotNull = c.NotNull || primary
	}
	suffix := "_pkey"
	if !primary {
		suffix = fmt.Sprintf("_u%d", len(t.Keys))
	}
	return Key{Name: t.Name + suffix, Primary: primary, Columns: names}
}

// addConstraints gives column c a random DEFAULT, CHECK, both or neither.
func (w *TestSchema) addConstraints(d *choiceSequence, t *Table, c *Column) {
	if d.chance(30) {
		c.Default = w.drawConstant(d, c.Type)
	}
	if c.Type == Bytea && d.chance(25) {
		t.Checks = append(t.Checks, pickOne(d, "length(%s) < 300", `%s <> '\x6e6f'`, "octet_length(%s) >= 0 OR %[1]s IS NULL", `%s BETWEEN '' AND '\xffffffffffffffffffffffffffffffffffffffffff'`))
		t.Checked = append(t.Checked, c.Name)
	}
}

func newView(d *choiceSequence, t *Table, name string) *Table {
	v := &Table{Name: name, Of: t}
	for _, c := range t.Columns {
		v.Columns = append(v.Columns, Column{Name: c.Name, Type: c.Type})
	}
	if d.chance(50) {
		v.Where = " WHERE %s IS NOT NULL"
	}
	return v
}

func (t *Table) columnNames() []string {
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	return names
}

func (t *Table) columnByName(name string) *Column {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return &t.Columns[i]
		}
	}
	return nil
}

// DDL returns the statement that creates the table or view, as a client writes it.
func (t *Table) DDL() string { return t.createStatement(false) }

// MappedDDL returns the statement that creates the table or view in a mapped database, which stores bytea keys as
// text.
func (t *Table) MappedDDL() string { return t.createStatement(true) }

const suffix = "__byteahex"

func (t *Table) createStatement(mapped bool) string {
	if t.Of != nil {
		return t.createViewStatement(mapped)
	}
	var lines []string
	for i := range t.Columns {
		lines = append(lines, t.Columns[i].definition(t.Columns[i].physicalName(mapped), mapped))
	}
	for _, k := range t.Keys {
		var names []string
		for _, n := range k.Columns {
			names = append(names, t.columnByName(n).physicalName(mapped))
		}
		kind := "UNIQUE"
		if k.Primary {
			kind = "PRIMARY KEY"
		}
		lines = append(lines, fmt.Sprintf("CONSTRAINT %s %s (%s)", QuoteIdent(k.Name), kind, strings.Join(names, ", ")))
	}
	for i, check := range t.Checks {
		lines = append(lines, "CHECK ("+fmt.Sprintf(check, t.columnByName(t.Checked[i]).readExpression(mapped))+")")
	}
	return "CREATE TABLE " + QuoteIdent(t.Name) + " (\n  " + strings.Join(lines, ",\n  ") + "\n)"
}

func (t *Table) createViewStatement(mapped bool) string {
	columns := "*"
	if mapped || t.Where != "" {
		var all []string
		for i := range t.Of.Columns {
			all = append(all, t.Of.Columns[i].readExpression(mapped)+" AS "+QuoteIdent(t.Of.Columns[i].Name))
		}
		columns = strings.Join(all, ", ")
	}
	where := ""
	if t.Where != "" {
		where = fmt.Sprintf(t.Where, t.Of.Columns[0].readExpression(mapped))
	}
	return "CREATE VIEW " + QuoteIdent(t.Name) + " AS SELECT " + columns + " FROM " + QuoteIdent(t.Of.Name) + where
}

// physicalName returns the quoted name of the column. If mapped is true, it is the name in a database that stores
// bytea keys as text, otherwise in a plain PostgreSQL.
func (c *Column) physicalName(mapped bool) string {
	if mapped && c.Mapped {
		return QuoteIdent(c.Name + suffix)
	}
	return QuoteIdent(c.Name)
}

// readExpression returns the SQL expression that reads the column. If mapped is true, it is for a database that
// stores bytea keys as text, otherwise for a plain PostgreSQL.
func (c *Column) readExpression(mapped bool) string {
	if mapped && c.Mapped {
		return "decode(" + c.physicalName(true) + ", 'hex')"
	}
	return QuoteIdent(c.Name)
}

// definition returns the SQL that defines the column in CREATE TABLE. If mapped is true, it is for a database that
// stores bytea keys as text, otherwise for a plain PostgreSQL.
func (c *Column) definition(name string, mapped bool) string {
	typ, value := c.Type.String(), c.Default
	if mapped && c.Mapped {
		typ, value = "text", "encode("+c.Default+", 'hex')"
	}
	line := name + " " + typ
	if c.NotNull {
		line += " NOT NULL"
	}
	if c.Default != "" {
		line += " DEFAULT " + value
	}
	return line
}
