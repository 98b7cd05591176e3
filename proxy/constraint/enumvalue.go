package constraint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// This file performs ALTER TYPE ... ADD VALUE (alter.EnumValueAddition), where a domain with a CHECK replaces the
// enumeration. In October 2026 clusters refused ALTER DOMAIN ... ADD CONSTRAINT. Whether they accept DROP CONSTRAINT is
// not published. So Sluice first tries a DROP CONSTRAINT of a missing name. A server that refuses this, or the ADD
// CONSTRAINT after it, has changed nothing.
//
//	look    read the CHECKs of the domain
//	one     done if it has the value. Otherwise add a CHECK with the value, under the next name
//	more    a statement of this kind is running, or was interrupted: drop all but the last
//
// If the domain has several CHECKs, a dropped CHECK may have a value that the last one lacks: the last one was based on
// a CHECK that was dropped meanwhile. The statement with that value then starts again.
//
// The steps repeat until the domain has one CHECK. Of two statements based on the same CHECK, one is refused, because
// both use the same next name. If others finish between a slow statement's look and its ADD CONSTRAINT, its CHECK
// refuses their values until it is dropped. A CHECK that an interrupted statement left accepts all earlier values, and
// the next statement about the type continues with it.

// EnumValueAdder is a running ALTER TYPE ... ADD VALUE, where a domain replaces the enumeration.
type EnumValueAdder struct {
	*alter.EnumValueAddition
	Notices [][]byte // sent to the client before the tag

	server Server
	shown  string // the type's name in messages
	checks []*alter.DomainCheck
	made   string // the CHECK that this statement has made, or may have made
	took   bool   // the value is accepted because of this statement
	tried  bool   // the server accepts DROP CONSTRAINT
}

// NewEnumValueAdder returns an EnumValueAdder that executes st.
func NewEnumValueAdder(server Server, st *alter.EnumValueAddition) *EnumValueAdder {
	return &EnumValueAdder{server: server, EnumValueAddition: st}
}

// mostRounds bounds the rounds of an ALTER TYPE ... ADD VALUE. roundPause separates rounds without progress.
const (
	mostRounds = 20
	roundPause = 25 * time.Millisecond
)

// Run sends the ALTER TYPE to the server. If the server refuses it, Run performs it by other statements.
func (e *EnumValueAdder) Run() error {
	err := e.server.Ask(e.Text, nil)
	told := e.server.RefusalFrom(err)
	if told == nil || told.Code != retry.StateUnsupported {
		return err
	}
	for range mostRounds {
		if err := e.readDomain(told); err != nil {
			return err
		}
		done, moved, err := e.runRound(told)
		if done || err != nil {
			return err
		}
		if moved {
			continue
		}
		if err := e.server.Pause(roundPause); err != nil {
			return err
		}
	}
	var names []string
	for _, check := range e.checks {
		names = append(names, quoteIdent(check.Name))
	}
	return &wire.Error{Code: "55000", Message: fmt.Sprintf("the values of type %s are being changed", e.shown), Detail: "Other statements are at it, or were cut: it has the constraints " + strings.Join(names, ", ") + ", of which none has the values of all.",
		Hint: "If no statement is at it any more, drop all but the one that is to be: " + e.DropCheckSQL("<name>") + ". Then send this one again."}
}

// readDomain reads the domain that replaces the enumeration, and its CHECKs.
func (e *EnumValueAdder) readDomain(told *wire.Error) error {
	kind, others := "", false
	e.checks = nil
	err := e.server.Ask(fmt.Sprintf(`SELECT t.typtype, pg_catalog.format_type(t.oid, NULL), COALESCE(b.typname, ''), COALESCE(c.conname, ''), COALESCE(pg_catalog.pg_get_constraintdef(c.oid), '')`+
		` FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype LEFT JOIN pg_catalog.pg_constraint c ON c.contypid = t.oid AND c.contype = 'c' WHERE t.oid = %s::pg_catalog.regtype`,
		quoteLiteral(e.Type)), func(v []string) {
		if len(v) != 5 {
			return
		}
		kind, e.shown = v[0], v[1]
		check := alter.ParseDomainCheck(v[3], v[4])
		if others = others || check == nil || v[2] != "text"; check != nil {
			e.checks = append(e.checks, check)
		}
	})
	switch {
	case err != nil:
		return err
	case kind != "d":
		return &wire.Error{Code: "42809", Message: e.shown + " is not an enum"}
	case others || len(e.checks) == 0:
		with := *told
		with.Detail = fmt.Sprintf("The domain %s is not held to a list of values by one CHECK, as one is that stands for an enumeration (%s).", e.shown, alter.EnumKey)
		return &with
	}
	return nil
}

// runRound performs one round of the steps of an ALTER TYPE ... ADD VALUE. done means that the value is in the only
// CHECK, and moved that the round made progress. If neither is set, other ALTER TYPE statements of this kind are
// running.
func (e *EnumValueAdder) runRound(told *wire.Error) (done, moved bool, err error) {
	newest, old, follows := alter.NewestDomainCheck(e.checks)
	there := slices.Contains(newest.Values, e.Value)
	switch {
	case !follows:
		return false, false, nil
	case len(old) > 0:
		for _, check := range old {
			if err := e.dropCheck(check.Name); err != nil {
				return false, false, err
			}
			e.took = e.took || there && !slices.Contains(check.Values, e.Value)
		}
		return false, true, nil
	case there && e.took:
		e.made = ""
		e.warnOfDomain()
		return true, true, nil
	case there:
		return true, true, e.existsError()
	case e.TooLong():
		return true, true, &wire.Error{Code: "42602", Message: fmt.Sprintf("invalid enum label \"%s\"", e.Value), Detail: "Labels must be 63 bytes or less."}
	case e.Placed && !slices.Contains(newest.Values, e.Neighbour):
		return true, true, &wire.Error{Code: "22023", Message: fmt.Sprintf("\"%s\" is not an existing enum label", e.Neighbour)}
	}
	moved, err = e.addCheck(newest, told)
	return false, moved, err
}

// addCheck adds a CHECK with the new value to the domain. addCheck returns false if another statement added a CHECK
// first.
func (e *EnumValueAdder) addCheck(from *alter.DomainCheck, told *wire.Error) (added bool, err error) {
	if err := e.server.CheckMayContinue(); err != nil {
		return false, err
	}
	if !e.tried {
		if err := e.server.Ask(e.DropCheckIfExistsSQL(fmt.Sprintf("sluice_none_%08x", rand.Uint32())), nil); err != nil {
			return false, e.refusalError(err, told)
		}
		e.tried = true
	}
	e.made, e.took = from.NextName(), true
	err = e.server.Ask(e.AddCheckSQL(e.made, e.WithValue(from.Values)), nil)
	if err == nil || !e.server.ChangedNothing(err) {
		return true, err
	}
	e.made, e.took = "", false
	if why := e.server.RefusalFrom(err); why != nil && (why.Code == takenName || isConcurrentChange(why)) {
		return false, nil
	}
	return false, e.refusalError(err, told)
}

// refusalError returns the error for an ALTER TYPE that the server accepts neither as it is nor as other statements.
func (e *EnumValueAdder) refusalError(err error, told *wire.Error) error {
	why := e.server.RefusalFrom(err)
	if why == nil || why.Code != retry.StateUnsupported && why.Code != "42601" {
		return err
	}
	with := *told
	with.Detail = fmt.Sprintf("For the domain %s the server refuses ALTER DOMAIN, too: %s", e.shown, why.Message)
	with.Hint = alter.AnotherDomain
	return &with
}

// dropCheck drops a CHECK of the domain. If it is interrupted before the server got the statement, dropCheck tries
// again, because the CHECK still refuses the new value.
func (e *EnumValueAdder) dropCheck(name string) (err error) {
	for range mostTries {
		err = e.server.Ask(e.DropCheckSQL(name), nil)
		told := e.server.RefusalFrom(err)
		if err == nil || told != nil && slices.Contains(notThere, told.Code) {
			if name == e.made {
				e.made = ""
			}
			return nil
		}
		switch {
		case !e.server.ChangedNothing(err) || told != nil && !isConcurrentChange(told):
			return err
		case told == nil:
			e.server.ConsumeCancel(err)
		}
	}
	return err
}

// isConcurrentChange reports whether an error shows a concurrent change of the same catalog row. PostgreSQL sends these
// errors, and DSQL a conflict.
func isConcurrentChange(told *wire.Error) bool {
	return told.Code == "23505" || told.Code == "XX000" && (strings.HasPrefix(told.Message, "tuple concurrently ") || strings.HasPrefix(told.Message, "cache lookup failed for constraint "))
}

// existsError returns PostgreSQL's error for a value that the enumeration has already. With IF NOT EXISTS, existsError
// adds PostgreSQL's notice instead.
func (e *EnumValueAdder) existsError() error {
	message := fmt.Sprintf("enum label \"%s\" already exists", e.Value)
	if !e.IfNotExists {
		return &wire.Error{Code: takenName, Message: message}
	}
	notice := &wire.Error{Code: takenName, Message: message + ", skipping"}
	e.Notices = append(e.Notices, notice.AppendNotice(nil, "NOTICE"))
	return nil
}

// warnOfDomain adds a warning for the client: a domain replaces the enumeration.
func (e *EnumValueAdder) warnOfDomain() {
	warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("type %s is a domain over text, since DSQL has no enumerations", e.shown),
		Detail: "Its values compare and sort as texts, wherever one is added."}
	e.Notices = append(e.Notices, warning.AppendNotice(nil, "WARNING"))
}

// WithPartialResult adds to an error the CHECK that the failed statement may have left.
func (e *EnumValueAdder) WithPartialResult(err error) error {
	told, ok := err.(*wire.Error)
	if !ok || told.Fatal || e.made == "" {
		return err
	}
	with := *told
	with.Detail = strings.TrimSpace(fmt.Sprintf("%s The constraint \"%s\", which has the value, may stand beside the one before it, until whose drop the value is refused.", told.Detail, e.made))
	with.Hint = "Send the statement again: it goes on from there. Or give it up: " + e.DropCheckIfExistsSQL(e.made) + "."
	return &with
}
