package proxy

import (
	"fmt"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Of many savepoints in parts that are committed the last are known, and what a return to a
// savepoint brings back is not changed by what comes then.
func TestPartsAreBounded(t *testing.T) {
	t.Parallel()
	var p parts
	for n := range 3 * mostNames {
		p.keepNames([]string{fmt.Sprint("a", n), fmt.Sprint("b", n)})
	}
	if n := len(p.savepoints); n != mostNames || p.savepoints[n-1] != fmt.Sprint("b", 3*mostNames-1) {
		t.Errorf("%d names, the last is %s", n, p.savepoints[n-1])
	}
	p.takes(rewrite.Demand{DDL: true}, "one", false)
	mark := p.mark()
	p.takes(rewrite.Demand{Rows: true}, "two", false)
	p.returnTo(mark)
	p.takes(rewrite.Demand{}, "nothing", false)
	p.takes(rewrite.Demand{Sets: true}, "three", false)
	if got := p.lists.String(); got != "one; three" || p.open != (rewrite.Demand{DDL: true, Sets: true}) || mark.lists.String() != "one" {
		t.Errorf("%s, %+v, %s", got, p.open, mark.lists.String())
	}
}
