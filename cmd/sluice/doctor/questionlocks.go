package doctor

import (
	"fmt"
	"strings"
)

// askLockOutsideBlock lets a request without BEGIN lock a row and change a second row, while a second client deletes
// the locked row. In a block one of the two clients would fail. No setting depends on the answer.
func askLockOutsideBlock(a *questionRun) {
	if a.e.secondConn == nil {
		var err error
		if a.e.secondConn, err = a.e.connect(a.ctx); err != nil {
			a.addFinding("Not asked: there is no second connection: %v", err)
			return
		}
	}
	for try := range maxTries {
		conflict := a.provokeConflictOutside(fmt.Sprintf("%02x", 0x30+try))
		switch {
		case a.err != nil:
			return
		case conflict != nil && conflict.code != "40001":
			a.addFinding("It is refused: %v", conflict)
			return
		case conflict != nil && strings.Contains(conflict.message, "OC001") && try+1 < maxTries:
			continue // a conflict with an earlier change of the schema
		}
		a.addFinding("Another party deletes the row meanwhile: %s", describeConflict(conflict, "both commit"))
		a.setAnswer(conflict != nil)
		break
	}
	a.So = "nothing: under an advisory lock (rewrite.advisory_locks) Sluice writes in blocks, of its own where the client has none."
}

// provokeConflictOutside runs, outside of a block, the requests of two clients that want the same row. It returns
// their conflict, or the server's refusal of a request.
func (a *questionRun) provokeConflictOutside(digits string) *serverError {
	table, row := a.e.tableName("keyed"), " WHERE a = 6 AND digits = '"+digits+"'"
	lock := appendStatement(nil, "SELECT n FROM "+table+row+" FOR KEY SHARE")
	_, err := a.e.mainConn.requestRows(a.ctx, appendFrame(lock, 'H', ""), true)
	refused := a.asServerError(err)
	if a.err != nil {
		return nil
	}
	var deleted *serverError
	var write []byte
	if refused == nil {
		_, err := a.e.secondConn.queryRows(a.ctx, "DELETE FROM "+table+row)
		if deleted = a.asServerError(err); a.err != nil {
			return nil
		}
		write = appendStatement(write, "UPDATE "+table+" SET n = n + 1 WHERE a = 2 AND digits = '10'")
	}
	_, err = a.e.mainConn.requestRows(a.ctx, appendFrame(write, 'S', ""), false)
	switch ended := a.asServerError(err); {
	case a.err != nil:
		return nil
	case refused != nil:
		return refused
	case ended != nil:
		return ended
	}
	return deleted
}
