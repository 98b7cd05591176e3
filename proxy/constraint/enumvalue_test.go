package constraint

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// domain is a server with one domain, of whose CHECKs it knows the values by name. Statements that are run at
// once take turns, as the seed says, and some lose their connection.
type domain struct {
	checks  map[string][]string
	refuses string // words of what it refuses (0A000)
	check   func(d *domain)
}

// visitor is a connection to it.
type visitor struct {
	*domain
	turn, done chan struct{}
	lives      int // statements until the connection is lost; negative: it is not
}

var (
	addsCheck  = regexp.MustCompile(`^ALTER DOMAIN "mood" ADD CONSTRAINT "(.*)" CHECK \(VALUE IN \((.*)\)\) NOT VALID$`)
	dropsCheck = regexp.MustCompile(`^ALTER DOMAIN "mood" DROP CONSTRAINT (IF EXISTS )?"(.*)"$`)
)

func (v *visitor) Ask(sql string, row func([]string)) error {
	v.done <- struct{}{}
	<-v.turn
	if v.lives == 0 {
		return errLost
	}
	v.lives--
	defer v.check(v.domain)
	if strings.HasPrefix(sql, "ALTER TYPE") || v.refuses != "" && strings.Contains(sql, v.refuses) {
		return &wire.Error{Code: "0A000", Message: "not supported"}
	}
	if adds := addsCheck.FindStringSubmatch(sql); adds != nil {
		if _, there := v.checks[adds[1]]; there {
			return &wire.Error{Code: "42710", Message: "constraint already exists"}
		}
		for _, value := range strings.Split(adds[2], ", ") {
			v.checks[adds[1]] = append(v.checks[adds[1]], strings.Trim(value, "'"))
		}
		return nil
	}
	if drops := dropsCheck.FindStringSubmatch(sql); drops != nil {
		if v.lives%5 == 4 && drops[1] == "" {
			return &wire.Error{Code: "XX000", Message: "tuple concurrently deleted"}
		}
		if _, there := v.checks[drops[2]]; !there && drops[1] == "" {
			return &wire.Error{Code: "42704", Message: "constraint does not exist"}
		}
		delete(v.checks, drops[2])
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(v.checks)) {
		list := "'" + strings.Join(v.checks[name], "'::text, '") + "'::text"
		row([]string{"d", "mood", "text", name, "CHECK ((VALUE = ANY (ARRAY[" + list + "]))) NOT VALID"})
	}
	return nil
}

func (v *visitor) RefusalFrom(err error) *wire.Error {
	told, _ := errors.AsType[*wire.Error](err)
	return told
}
func (v *visitor) ChangedNothing(err error) bool { return v.RefusalFrom(err) != nil }
func (*visitor) ConsumeCancel(error)             {}
func (*visitor) CheckMayContinue() error         { return nil }
func (v *visitor) Pause(time.Duration) error     { v.done <- struct{}{}; <-v.turn; return nil }
func (*visitor) UpdateInBatches(string, func([]string, int) string) (int, error) {
	panic("no rows")
}

// taken are the values that all CHECKs have.
func (d *domain) taken() (values []string) {
	first := true
	for _, check := range d.checks {
		if first {
			values, first = slices.Clone(check), false
		}
		values = slices.DeleteFunc(values, func(v string) bool { return !slices.Contains(check, v) })
	}
	return values
}

// adding is the work of a statement that adds a value at such a server.
func adding(t *testing.T, v *visitor, value string) *EnumValueAdder {
	t.Helper()
	config := rewrite.Defaults()
	config.Rules.Enums = true
	p, err := rewrite.New(config)
	if err != nil {
		t.Fatal(err)
	}
	st := p.Plan([]byte("ALTER TYPE mood ADD VALUE '" + value + "'")).SingleStatement()
	if st == nil {
		t.Fatal("no such statement")
	}
	return NewEnumValueAdder(v, st.Steps.(*alter.EnumValueAddition))
}

// together runs statements at a server at once, in an order that is random, and returns their errors.
func together(t *testing.T, random *rand.Rand, d *domain, values []string, lives func() int) map[string]error {
	t.Helper()
	visitors, ends := map[string]*visitor{}, map[string]error{}
	finished := make(chan string, 1)
	for _, value := range values {
		v := &visitor{domain: d, turn: make(chan struct{}), done: make(chan struct{}), lives: lives()}
		work := adding(t, v, value)
		var err error
		go func() {
			err = work.WithPartialResult(work.Run())
			ends[value] = err // nobody else runs
			finished <- value
		}()
		<-v.done // it asks
		visitors[value] = v
	}
	for len(visitors) > 0 {
		names := slices.Sorted(maps.Keys(visitors))
		v := visitors[names[random.IntN(len(names))]]
		v.turn <- struct{}{}
		select {
		case <-v.done:
		case value := <-finished:
			delete(visitors, value)
		}
	}
	return ends
}

// Statements that add values at once, in any order: whatever the moment, no value is refused that the type had,
// none is taken that nobody has asked for, and at the end there is one CHECK with all that was told.
func TestEnumValuesTogether(t *testing.T) {
	ends := map[string]int{}
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 0))
		values := []string{"a", "b", "c", "d"}[:1+random.IntN(4)]
		d := &domain{checks: map[string][]string{"mood_check": {"sad", "ok"}}, check: func(d *domain) {
			taken := d.taken()
			if !slices.Contains(taken, "sad") || !slices.Contains(taken, "ok") || len(d.checks) == 0 {
				t.Fatalf("seed %d: %v", seed, d.checks)
			}
		}}
		killed := random.IntN(2) == 0
		told := together(t, random, d, values, func() int {
			if killed && random.IntN(2) == 0 {
				return random.IntN(9)
			}
			return -1
		})
		confirmed, lost := []string{"sad", "ok"}, []string(nil)
		for value, err := range told {
			switch {
			case err == nil:
				confirmed = append(confirmed, value)
				ends["done"]++
			case err == errLost:
				ends["lost"]++
				lost = append(lost, value)
			default:
				ends[err.(*wire.Error).Code]++
			}
		}
		if killed { // whoever was lost sends it again
			for _, value := range append(lost, "z") {
				there := slices.Contains(d.taken(), value)
				if err := together(t, random, d, []string{value}, func() int { return -1 })[value]; (err != nil) != there {
					t.Fatalf("seed %d: %s: %v, %v", seed, value, err, d.checks)
				}
				confirmed = append(confirmed, value)
			}
		}
		for _, value := range confirmed {
			if !slices.Contains(d.taken(), value) || len(d.checks) != 1 {
				t.Fatalf("seed %d: told %v, and there are %v", seed, confirmed, d.checks)
			}
		}
	}
	if t.Log(ends); ends["done"] < 1000 || ends["lost"] < 100 || len(ends) != 2 {
		t.Errorf("%v", ends)
	}
}

// CHECKs that were not made of one another are left as they are.
func TestEnumValueOfOthers(t *testing.T) {
	for _, checks := range []map[string][]string{
		{"mood_check1": {"a", "b", "c"}, "mood_check2": {"a"}}, {"other": {"a"}, "mood_check2": {"a", "b"}},
	} {
		d := &domain{checks: maps.Clone(checks), check: func(*domain) {}}
		err := together(t, rand.New(rand.NewPCG(1, 1)), d, []string{"z"}, func() int { return -1 })["z"]
		if told, ok := err.(*wire.Error); !ok || told.Code != "55000" || fmt.Sprint(d.checks) != fmt.Sprint(checks) {
			t.Errorf("%v, %v", err, d.checks)
		}
	}
}

// A server that refuses ALTER DOMAIN, or one of its forms, has changed nothing, and the client is told so.
func TestEnumValueRefused(t *testing.T) {
	for _, refuses := range []string{"DROP CONSTRAINT", "ADD CONSTRAINT", "ALTER DOMAIN"} {
		d := &domain{checks: map[string][]string{"mood_check": {"sad"}}, refuses: refuses, check: func(*domain) {}}
		err := together(t, rand.New(rand.NewPCG(1, 1)), d, []string{"a"}, func() int { return -1 })["a"]
		told, ok := err.(*wire.Error)
		if !ok || told.Code != "0A000" || !strings.Contains(told.Detail, "refuses ALTER DOMAIN, too") || told.Hint == "" || fmt.Sprint(d.checks) != "map[mood_check:[sad]]" {
			t.Errorf("%s: %v, %v", refuses, err, d.checks)
		}
	}
}
