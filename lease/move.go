package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What a shard's item of format 1 has when it is closed, with one write and for good.
// What was free, and the limit, are kept under other names: attrFree is a text then,
// so that versions before cannot reckon with it, and attrLimit one that no shard has.
// The records are put aside under asidePrefix before the item is moved: owners of
// versions before, who know nothing of all this, find theirs gone, and have nothing there
// to renew or to reap. Nobody can write to the item then.
const (
	attrClosed, attrWasLimit, attrWasFree = "moved", "wlim", "wfree"

	asidePrefix = "x"
	closedFree  = "moved to a key of its own, in format 2"
	closedLimit = -1
	// tombstone is an owner for versions before: without any the item looks like
	// none, and they would try to make it without a pause. It is never reaped.
	tombstone     = "moved-to-format-2"
	tombstoneText = "0|0|0|315360000000|"

	// follower is part of the names of owners that follow a shard which is moved.
	follower = "~"
	// movedAtOnce and asideAtOnce are how many records one write carries: an expression
	// has 4 KB, and 300 operators.
	movedAtOnce = 100
	asideAtOnce = 50
)

var errNotMoved = errors.New("a shard's item is gone: sluice lease init makes it")

// closed reports whether an item was closed; whole, whether one has arrived under its
// own key.
func (i item) closed() bool { return i.number(attrClosed) != 0 }
func (i item) whole() bool  { return i[attrFree] != nil }

// asMoved is what becomes of a closed item under its own key.
func (i item) asMoved() item {
	moved := item{attrLimit: i[attrWasLimit], attrFree: i[attrWasFree]}
	for name, value := range i {
		owner, aside := strings.CutPrefix(name, asidePrefix)
		switch {
		case aside:
			moved[ownerPrefix+owner] = value
		case name == attrEpoch, name == attrRepair, strings.HasPrefix(name, ownerPrefix) && name != ownerPrefix+tombstone:
			moved[name] = value
		}
	}
	return moved
}

// strays are the owners of records who do not follow a shard that is moved: they are
// of a version before, or may not use the shards' own keys.
func (i item) strays() (owners []string) {
	for owner := range i.shard().Owners {
		if owner != tombstone && !strings.Contains(owner, follower) {
			owners = append(owners, owner)
		}
	}
	slices.Sort(owners)
	return owners
}

// closeShard closes a shard's item of format 1. From then on nobody takes slots from
// it or gives any back. An item that is not there has none, and is closed as well:
// versions before must not make it.
func (t *Table) closeShard(ctx context.Context, shard int) error {
	u := update{table: t.slots, at: t.oneKey(shard), forever: true}
	u.require("attribute_not_exists(%s)", u.name(attrClosed))
	nothing := u.number(0)
	u.set("%s = if_not_exists(%s, %s)", u.name(attrWasFree), u.name(attrFree), nothing)
	u.set("%s = if_not_exists(%s, %s)", u.name(attrWasLimit), u.name(attrLimit), nothing)
	u.set("%s = %s", u.name(attrFree), u.text(closedFree))
	u.set("%s = %s", u.name(attrLimit), u.number(closedLimit))
	u.set("%s = %s", u.name(attrClosed), u.number(Format))
	u.set("%s = %s", u.name(ownerPrefix+tombstone), u.text(tombstoneText))
	_, _, _, err := t.write(ctx, &u) // not done: it is closed
	return err
}

// move brings a closed item under its own key, unless somebody else has. Whoever
// meets one does: the one who closed it may be gone.
func (t *Table) move(ctx context.Context, shard int) error {
	own, _, err := t.read(ctx, t.slots, t.ownKey(shard), true)
	if err != nil {
		return err
	}
	if !own.whole() {
		if err := t.carry(ctx, shard); err != nil {
			return err
		}
	}
	t.places.moved[shard].Store(true)
	return nil
}

// carry puts aside the records of a closed item, and copies it then. Those of versions
// before may be renewed in between.
func (t *Table) carry(ctx context.Context, shard int) error {
	for tries := 0; tries < raceTries; {
		found, _, err := t.read(ctx, t.slots, t.oneKey(shard), true)
		if err != nil {
			return err
		}
		owners := slices.Sorted(maps.Keys(found.shard().Owners))
		owners = slices.DeleteFunc(owners, func(owner string) bool { return owner == tombstone })
		if len(owners) == 0 {
			return t.copy(ctx, shard, found.asMoved())
		}
		u := update{table: t.slots, at: t.oneKey(shard), forever: true}
		for _, owner := range owners[:min(len(owners), asideAtOnce)] {
			record := u.text(found.text(ownerPrefix + owner))
			u.require("%s = %s", u.name(ownerPrefix+owner), record)
			u.set("%s = %s", u.name(asidePrefix+owner), record)
			u.remove(u.name(ownerPrefix + owner))
		}
		_, done, _, err := t.write(ctx, &u)
		if err != nil {
			return err
		}
		if !done { // one was renewed, or somebody else was faster
			tries++
		}
	}
	return errRaced
}

// copy makes an item under a shard's own key. What is free comes last: without it the
// item is not there for anybody. Several may do it at once, since all write the same.
func (t *Table) copy(ctx context.Context, shard int, what item) error {
	free := what[attrFree]
	delete(what, attrFree)
	names := slices.Sorted(maps.Keys(what))
	for {
		some := names[:min(len(names), movedAtOnce)]
		names = names[len(some):]
		u := update{table: t.slots, at: t.ownKey(shard)}
		u.require("attribute_not_exists(%s)", u.name(attrFree))
		for _, name := range some {
			u.set("%s = %s", u.name(name), u.value(what[name]))
		}
		if len(names) == 0 {
			u.set("%s = %s", u.name(attrFree), u.value(free))
		}
		_, done, _, err := t.write(ctx, &u)
		if err != nil || !done || len(names) == 0 {
			return err
		}
	}
}

// begin prepares a cluster without settings: the places of format 1 are closed before
// there is anything, so that no version before makes a second ledger there. If there
// is one already, whose settings are gone, it goes on in its format.
func (t *Table) begin(ctx context.Context, shards int) (format int, err error) {
	for shard := range shards {
		found, _, err := t.read(ctx, t.slots, t.oneKey(shard), true)
		if err != nil || len(found) > 0 && !found.closed() {
			return formatOneKey, err
		}
	}
	for shard := range shards {
		if err := t.closeShard(ctx, shard); err != nil {
			return Format, err
		}
	}
	return Format, nil
}

// A StraysError says whose records a migration would take away from them.
type StraysError struct {
	Owners []string // as Status shows them
	Moved  int      // shards that are moved already
}

func (e *StraysError) Error() string {
	which := strings.Join(e.Owners, ", ")
	if len(e.Owners) > strayNames {
		which = strings.Join(e.Owners[:strayNames], ", ") + fmt.Sprintf(" and %d more", len(e.Owners)-strayNames)
	}
	return fmt.Sprintf("lease: %d records are of sidecars that cannot follow, and would close all their backends: %s. They run an older version, or may not use "+
		"the keys of format 2: give them the policy deploy/iam/lease-sidecar.json, upgrade and restart them (the log of each has its name: msg=lease, owner=). "+
		"What dead ones have left is free after distributed.reap_after, or by sluice lease reset --dead. %d shards are moved; those that are stay usable",
		len(e.Owners), which, e.Moved)
}

// strayNames is how many owners an error names.
const strayNames = 20

// Migrate brings a table of format 1 to format 2, while sidecars run: one shard after
// the other is closed and moved, and then the settings change. Sidecars find each shard
// where it is and close nothing. It refuses, before it changes anything, while there are
// records of some that cannot. It may be cut off anywhere, and run again, or twice at
// once; a table that is migrated in part can be used like any other. It returns what it
// did, in words.
func (t *Table) Migrate(ctx context.Context) (did string, err error) {
	patient, err := t.admin(ctx)
	if err != nil {
		return "", err
	}
	return patient.migrate(ctx, true)
}

func (t *Table) migrate(ctx context.Context, heed bool) (did string, err error) {
	now, err := t.newestKnown(ctx)
	switch {
	case err != nil:
		return "", err
	case now.Shards == 0:
		return "", t.noSettings(t.slots)
	case now.Format == Format:
		return "the table is of format 2: nothing to migrate", nil
	}
	if err := t.strays(ctx, now.Shards); err != nil && heed {
		return "", err
	}
	for shard := range now.Shards {
		found, moved, err := t.peek(ctx, shard)
		if err != nil {
			return "", fmt.Errorf("shard %d: %w", shard, err)
		}
		if strays := found.strays(); !moved && heed && len(strays) > 0 { // they came while others were moved
			return "", &StraysError{strays, shard}
		}
		if err := t.closeShard(ctx, shard); err != nil {
			return "", fmt.Errorf("shard %d: %w", shard, err)
		}
		if err := t.move(ctx, shard); err != nil {
			return "", fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	for tries := 0; now.Format != Format; tries++ {
		want := now.Settings
		want.Format = Format
		next, done, err := t.declare(ctx, now, want)
		if now = next; err != nil {
			return "", err
		}
		if done {
			break
		}
		if tries == raceTries {
			return "", errOvertaken
		}
		if now, err = t.newestKnown(ctx); err != nil {
			return "", err
		}
	}
	if _, err := t.follow(ctx, now); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d shards have keys of their own now: the table is of format 2", now.Shards), nil
}

// strays fails when there is a record in a shard that is not moved yet whose owner
// cannot follow.
func (t *Table) strays(ctx context.Context, shards int) error {
	e := StraysError{}
	for shard := range shards {
		found, moved, err := t.peek(ctx, shard)
		if err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
		if moved {
			e.Moved++
		} else {
			e.Owners = append(e.Owners, found.strays()...)
		}
	}
	if len(e.Owners) == 0 {
		return nil
	}
	return &e
}

// newestKnown is the newest intent. It is an error if it is of a later version.
func (t *Table) newestKnown(ctx context.Context) (intent, error) {
	now, err := t.intent(ctx)
	if err == nil && now.Format > Format {
		err = &MismatchError{Key: keyFormat, Table: now.Format, Configured: Format}
	}
	return now, err
}
