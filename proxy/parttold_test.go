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
	var p blockParts
	for n := range 3 * maxKeptSavepoints {
		p.keepSavepoints([]string{fmt.Sprint("a", n), fmt.Sprint("b", n)})
	}
	if n := len(p.savepoints); n != maxKeptSavepoints || p.savepoints[n-1] != fmt.Sprint("b", 3*maxKeptSavepoints-1) {
		t.Errorf("%d names, the last is %s", n, p.savepoints[n-1])
	}
	p.addStatement(rewrite.TxDemand{DDL: true}, "one", false)
	mark := p.snapshot()
	p.addStatement(rewrite.TxDemand{Rows: true}, "two", false)
	p.restore(mark)
	p.addStatement(rewrite.TxDemand{}, "nothing", false)
	p.addStatement(rewrite.TxDemand{Sets: true}, "three", false)
	p.addStatement(rewrite.TxDemand{DDL: true}, "", false) // for a statement that is listed already
	if got := p.openStatements.String(); got != "one; three" || p.openDemand != (rewrite.TxDemand{DDL: true, Sets: true}) || mark.openStatements.String() != "one" {
		t.Errorf("%s, %+v, %s", got, p.openDemand, mark.openStatements.String())
	}
}
