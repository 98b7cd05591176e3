package statement

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// planOf stands for the planner: each text has an empty plan.
func planOf([]byte) *rewrite.Plan { return new(rewrite.Plan) }

// newCache returns a cache for 3 templates and what they cost.
func newCache() *Cache { return NewCache(3, 1<<20, NewBudget(1<<20), planOf) }

// template returns the template of a text without parameter types.
func template(c *Cache, sql string) *Template {
	return c.Template(new([]byte), []byte(sql), []byte{0, 0}, settings.ParsingHashes{}, 0, 0, nil)
}

// description returns a description with a parameter of the type and one column.
func description(epoch uint64, param uint32, column string, table, typ uint32) *Description {
	b := binary.BigEndian.AppendUint16(wire.AppendHeader(nil, wire.ParameterDescription, 6), 1)
	b = binary.BigEndian.AppendUint32(b, param)
	b = binary.BigEndian.AppendUint16(wire.AppendHeader(b, wire.RowDescription, 2+len(column)+1+columnSize), 1)
	b = append(append(b, column...), 0)
	b = binary.BigEndian.AppendUint32(b, table)
	b = binary.BigEndian.AppendUint16(b, 1)
	b = binary.BigEndian.AppendUint32(b, typ)
	b = append(b, 0, 4, 0xff, 0xff, 0xff, 0xff, 0, 0)
	return &Description{Epoch: epoch, Frames: b}
}

func TestCompatibleDescriptions(t *testing.T) {
	base := description(1, 23, "a", 1, 23)
	for _, c := range []struct {
		name  string
		other *Description
		want  bool
	}{
		{"the same", description(1, 23, "a", 1, 23), true},
		{"of another table", description(2, 23, "a", 7, 23), true},
		{"another parameter", description(1, 20, "a", 1, 23), false},
		{"another column", description(1, 23, "b", 1, 23), false},
		{"a longer name", description(1, 23, "ab", 1, 23), false},
		{"another type", description(1, 23, "a", 1, 25), false},
		{"a portal's", &Description{Frames: base.Frames[11:]}, true},
		{"without rows", &Description{Frames: wire.FrameNoData}, false},
	} {
		if got := base.IsCompatible(c.other); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if n := base.ParamCount(); n != 1 {
		t.Errorf("%d parameters", n)
	}
	if n := (&Description{Frames: base.Frames[11:]}).ParamCount(); n != 0 {
		t.Errorf("a portal has %d parameters", n)
	}
}

func TestCacheEvictsTheOldest(t *testing.T) {
	c := newCache()
	a := template(c, "a")
	template(c, "b")
	template(c, "c")
	if template(c, "a") != a {
		t.Fatal("a was made again")
	}
	template(c, "d")
	for sql, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if has := c.Lookup(new([]byte), []byte(sql), []byte{0, 0}, settings.ParsingHashes{}, 0, 0) != nil; has != want {
			t.Errorf("%s: %v", sql, has)
		}
	}
	for i, other := range []*Template{
		c.Template(new([]byte), []byte("a"), []byte{0, 1, 0, 0, 0, 23}, settings.ParsingHashes{}, 0, 0, nil),
		c.Template(new([]byte), []byte("a"), []byte{0, 0}, settings.ParsingHashes{All: 2}, 0, 0, nil),
		c.Template(new([]byte), []byte("a"), []byte{0, 0}, settings.ParsingHashes{}, 1, 0, nil),
		c.Template(new([]byte), []byte("a"), []byte{0, 0}, settings.ParsingHashes{}, 0, 1, nil),
	} {
		if other == a {
			t.Errorf("%d: has the template of another key", i)
		}
	}
}

// Texts that are too long, or whose settings belong to one transaction, have a template of their own at each Parse.
func TestTemplatesThatAreNotShared(t *testing.T) {
	c := newCache()
	long := string(make([]byte, MaxCachedText))
	if first := template(c, long); first == template(c, long) || !first.isLong() {
		t.Error("a long text is shared")
	}
	tx := settings.ParsingHashes{All: 3}
	one := c.Template(new([]byte), []byte("a"), []byte{0, 0}, tx, 0, 0, nil)
	if one == c.Template(new([]byte), []byte("a"), []byte{0, 0}, tx, 0, 0, nil) {
		t.Error("a text of one transaction's settings is shared")
	}
}

func TestPublishedDescriptions(t *testing.T) {
	c := newCache()
	tmpl := template(c, "a")
	if c.HasCurrent(tmpl) {
		t.Error("something is known of a new template")
	}
	first := description(c.Epoch(), 23, "a", 1, 23)
	c.PublishDescription(tmpl, first)
	c.PublishDescription(tmpl, description(0, 23, "a", 9, 23))
	if c.Epoch() != 0 || !c.HasCurrent(tmpl) {
		t.Errorf("epoch %d behind a description that means the same", c.Epoch())
	}
	c.PublishDescription(tmpl, description(0, 23, "b", 1, 23))
	if c.Epoch() != 1 || c.HasCurrent(tmpl) {
		t.Errorf("epoch %d behind one that differs", c.Epoch())
	}
	newer := description(1, 23, "b", 1, 23)
	c.PublishDescription(tmpl, newer)
	c.PublishDescription(tmpl, first)
	if tmpl.Description.Load() != newer {
		t.Error("an older description has replaced a newer one")
	}
	if a, b := c.NewTxEpoch(), c.NewTxEpoch(); a == b || a&TxEpochBit == 0 || c.Epoch() != 1 {
		t.Errorf("epochs of transactions: %x, %x", a, b)
	}
}

func TestServerSet(t *testing.T) {
	c, s := newCache(), new(ServerSet)
	a, b := template(c, "a"), template(c, "b")
	sa := s.Add(a, 1)
	mark := s.LastNumber()
	sb := s.Add(b, 1)
	if s.Find(a) != sa || !s.HasInEpoch(a, 1) || s.HasInEpoch(a, 2) || !s.HasName(sb.Name) || s.HasName("x") {
		t.Error("a statement is not found")
	}
	if s.EvictionCandidate(2, 1<<20, nil) != nil || s.EvictionCandidate(1, 1<<20, nil) != sb || s.EvictionCandidate(2, 1, nil) != sb ||
		s.EvictionCandidate(1, 1<<20, map[*Server]bool{sb: true}) != sa || s.EvictionCandidate(1, 1<<20, map[*Server]bool{sa: true, sb: true}) != nil {
		t.Error("b was used before a")
	}
	s.MarkOutdated(mark)
	if sa.Epoch != 1 || sb.Epoch != TxEpochBit {
		t.Errorf("epochs %x, %x", sa.Epoch, sb.Epoch)
	}
	s.SetDescription(sa, description(1, 23, "a", 1, 23))
	own := a.PrivateCopy()
	if s.RebindTemplate(sa, own); s.Find(a) != nil || s.Find(own) != sa || own.SharedForm != a || !own.Unshared {
		t.Error("the statement is not that of its copy")
	}
	long := s.Add(template(c, string(make([]byte, MaxCachedText))), 1)
	s.Trim(1000, 1<<30)
	if s.Find(long.Template) != nil || !s.HasName(long.Name) {
		t.Error("a long text is still there, or its name can be used again")
	}
	s.Trim(1, 1<<30)
	if s.Find(sb.Template) != nil || s.Find(own) != sa {
		t.Error("of two statements the one used last is not the one that stays")
	}
	s.AddOrphan("x")
	if names := s.TakeOrphans(); fmt.Sprint(names) != fmt.Sprint([]string{long.Name, sb.Name, "x"}) || len(s.TakeOrphans()) != 0 {
		t.Errorf("orphans %v", names)
	}
	s.Remove(sa)
	s.Remove(sb)
	if s.cost != 0 || s.long != 0 || s.EvictionCandidate(0, 0, nil) != nil && len(s.m) == 0 {
		t.Errorf("%d bytes, %d long texts are left", s.cost, s.long)
	}
}

// A client is charged for the names and texts that it has, and for nothing when they have gone.
func TestClientSetIsCharged(t *testing.T) {
	big := account.Bound{Limit: 1 << 30}
	a := account.NewProcess(account.Bounds{Client: big, Texts: big, Rows: big, Total: big, TotalRows: big}).NewClient()
	c := newCache()
	statement := func() *Client { tmpl := template(c, "a"); return &Client{Template: tmpl, Cost: int32(tmpl.Cost)} }
	var set ClientSet
	first := statement()
	set.Set(&a, "one", first)
	set.Set(&a, "two", statement())
	if set.Find([]byte("one")) != first || len(set.Named()) != 2 {
		t.Error("a name is not found")
	}
	was := set.Named()
	texts := a.Used(account.Texts)
	d := description(0, 23, "a", 1, 23)
	first.RecordDescription(&a, d)
	if more := a.Used(account.Texts) - texts; more != d.MemoryBytes() {
		t.Errorf("a description of %d bytes is charged by %d", d.MemoryBytes(), more)
	}
	first.RecordDescription(&a, d)
	set.Replace(&a, nil)
	if a.Used(account.Texts) != 0 || a.Used(account.Own) != 0 || len(set.Named()) != 0 {
		t.Errorf("%d and %d bytes are charged for no names", a.Used(account.Texts), a.Used(account.Own))
	}
	set.Replace(&a, was)
	if set.Find([]byte("one")) != first || a.Used(account.Own) != 2*(NameBytes+3) {
		t.Errorf("%d bytes for two names", a.Used(account.Own))
	}
	set.Set(&a, "one", nil)
	set.Set(&a, "two", nil)
	if a.Used(account.Texts) != 0 || a.Used(account.Own) != 0 {
		t.Errorf("%d and %d bytes are left", a.Used(account.Texts), a.Used(account.Own))
	}
	set.SetUnnamed(*statement())
	un := set.Find(nil)
	if un == nil || !set.UsesSlot(un) || set.HasUnusedSlot() || a.Used(account.Texts) != 0 {
		t.Error("the unnamed statement is not in its struct, or is charged")
	}
	if set.RemoveUnnamed(); set.Find(nil) != nil || !set.HasUnusedSlot() {
		t.Error("the unnamed statement is still there")
	}
	if set.ClearSlot(); set.HasUnusedSlot() {
		t.Error("the struct still refers to a template")
	}
}
