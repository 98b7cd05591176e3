package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// attrClosed, attrWasLimit and attrWasFree are attributes of a closed item: an item of format 1 that one write
// closed for good. attrWasFree and attrWasLimit take over the free slots and the limit. attrFree becomes a text,
// with which older versions cannot calculate, and attrLimit becomes a limit that no shard has. Records are renamed
// with asidePrefix before the item is copied. So owners of older versions find their records gone and renew nothing,
// and no process can write to the item.
const (
	attrClosed, attrWasLimit, attrWasFree = "moved", "wlim", "wfree"

	asidePrefix = "x"
	closedFree  = "moved to a key of its own, in format 2"
	closedLimit = -1
	// tombstone is the name of a fake owner in a closed item. No process removes its record, tombstoneText. An older
	// version takes an item without owners for a missing item, and would try without a pause to create it again.
	tombstone     = "moved-to-format-2"
	tombstoneText = "0|0|0|315360000000|"

	// follower is a part of owner names. It shows that the owner can use shards that moved to their own keys.
	follower = "~"
	// movedAtOnce bounds the attributes that one write copies, and asideAtOnce the records that one write renames. An
	// expression of DynamoDB has at most 4 KB and 300 operators.
	movedAtOnce = 100
	asideAtOnce = 50
)

var errNotMoved = errors.New("a shard's item is gone: sluice lease init makes it")

// isClosed reports whether a migration closed this item of format 1. isComplete reports whether an item under a shard's
// own key is complete.
func (i itemAttrs) isClosed() bool   { return i.number(attrClosed) != 0 }
func (i itemAttrs) isComplete() bool { return i[attrFree] != nil }

// movedContent returns the content that a closed item of format 1 gets when it is copied to the shard's own key.
func (i itemAttrs) movedContent() itemAttrs {
	moved := itemAttrs{attrLimit: i[attrWasLimit], attrFree: i[attrWasFree]}
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

// strandedOwners returns the owners that cannot use a shard moved to its own key. Such owners run an older version, or
// IAM forbids them these keys.
func (i itemAttrs) strandedOwners() (owners []string) {
	for owner := range i.shard().Owners {
		if owner != tombstone && !strings.Contains(owner, follower) {
			owners = append(owners, owner)
		}
	}
	slices.Sort(owners)
	return owners
}

// closeShard closes a shard's item of format 1, so that no process takes or returns slots in it. If the item is
// missing, closeShard creates a closed one, so that older versions do not create an open one.
func (t *Table) closeShard(ctx context.Context, shard int) error {
	u := itemUpdate{table: t.slots, at: t.sharedKeyAddress(shard), forever: true}
	u.addCondition("attribute_not_exists(%s)", u.namePlaceholder(attrClosed))
	nothing := u.numberPlaceholder(0)
	u.addSetClause("%s = if_not_exists(%s, %s)", u.namePlaceholder(attrWasFree), u.namePlaceholder(attrFree), nothing)
	u.addSetClause("%s = if_not_exists(%s, %s)", u.namePlaceholder(attrWasLimit), u.namePlaceholder(attrLimit), nothing)
	u.addSetClause("%s = %s", u.namePlaceholder(attrFree), u.textPlaceholder(closedFree))
	u.addSetClause("%s = %s", u.namePlaceholder(attrLimit), u.numberPlaceholder(closedLimit))
	u.addSetClause("%s = %s", u.namePlaceholder(attrClosed), u.numberPlaceholder(Format))
	u.addSetClause("%s = %s", u.namePlaceholder(ownerPrefix+tombstone), u.textPlaceholder(tombstoneText))
	_, _, _, err := t.updateItem(ctx, &u) // a refused write means that it is closed already
	return err
}

// moveShard copies a closed item of format 1 to the shard's own key, unless another process has done so. Any process
// that reads a closed item moves it, because the process that closed it may have ended.
func (t *Table) moveShard(ctx context.Context, shard int) error {
	own, _, err := t.readItem(ctx, t.slots, t.ownKeyAddress(shard), true)
	if err != nil {
		return err
	}
	if !own.isComplete() {
		if err := t.renameAndCopy(ctx, shard); err != nil {
			return err
		}
	}
	t.places.moved[shard].Store(true)
	return nil
}

// renameAndCopy renames all records of a closed item and then copies the item. renameAndCopy repeats the renaming when
// owners of older versions renew records in between.
func (t *Table) renameAndCopy(ctx context.Context, shard int) error {
	for tries := 0; tries < raceTries; {
		found, _, err := t.readItem(ctx, t.slots, t.sharedKeyAddress(shard), true)
		if err != nil {
			return err
		}
		owners := slices.Sorted(maps.Keys(found.shard().Owners))
		owners = slices.DeleteFunc(owners, func(owner string) bool { return owner == tombstone })
		if len(owners) == 0 {
			return t.copyItem(ctx, shard, found.movedContent())
		}
		u := itemUpdate{table: t.slots, at: t.sharedKeyAddress(shard), forever: true}
		for _, owner := range owners[:min(len(owners), asideAtOnce)] {
			record := u.textPlaceholder(found.text(ownerPrefix + owner))
			u.addCondition("%s = %s", u.namePlaceholder(ownerPrefix+owner), record)
			u.addSetClause("%s = %s", u.namePlaceholder(asidePrefix+owner), record)
			u.addRemoveClause(u.namePlaceholder(ownerPrefix + owner))
		}
		_, done, _, err := t.updateItem(ctx, &u)
		if err != nil {
			return err
		}
		if !done { // a record was renewed, or another process was faster
			tries++
		}
	}
	return errRaced
}

// copyItem creates an item under a shard's own key. Several processes may copy the same item at once, since all write
// the same. copyItem writes the free slots last, because an item without free slots counts as missing.
func (t *Table) copyItem(ctx context.Context, shard int, what itemAttrs) error {
	free := what[attrFree]
	delete(what, attrFree)
	names := slices.Sorted(maps.Keys(what))
	for {
		some := names[:min(len(names), movedAtOnce)]
		names = names[len(some):]
		u := itemUpdate{table: t.slots, at: t.ownKeyAddress(shard)}
		u.addCondition("attribute_not_exists(%s)", u.namePlaceholder(attrFree))
		for _, name := range some {
			u.addSetClause("%s = %s", u.namePlaceholder(name), u.valuePlaceholder(what[name]))
		}
		if len(names) == 0 {
			u.addSetClause("%s = %s", u.namePlaceholder(attrFree), u.valuePlaceholder(free))
		}
		_, done, _, err := t.updateItem(ctx, &u)
		if err != nil || !done || len(names) == 0 {
			return err
		}
	}
}

// prepareCluster prepares the items of a cluster whose settings are missing, and returns the format to use.
// prepareCluster closes the items of format 1 first, so that no older version creates a second ledger. If shards of
// format 1 are in use and only their settings are gone, prepareCluster returns format 1.
func (t *Table) prepareCluster(ctx context.Context, shards int) (format int, err error) {
	for shard := range shards {
		found, _, err := t.readItem(ctx, t.slots, t.sharedKeyAddress(shard), true)
		if err != nil || len(found) > 0 && !found.isClosed() {
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

// A StrandedOwnersError names the owners that would lose their records by a migration to format 2.
type StrandedOwnersError struct {
	Owners []string // as Status shows them
	Moved  int      // shards that were moved already
}

func (e *StrandedOwnersError) Error() string {
	which := strings.Join(e.Owners, ", ")
	if len(e.Owners) > maxNamedOwners {
		which = strings.Join(e.Owners[:maxNamedOwners], ", ") + fmt.Sprintf(" and %d more", len(e.Owners)-maxNamedOwners)
	}
	return fmt.Sprintf("lease: %d records are of sidecars that cannot follow, and would close all their backends: %s. They run an older version, or may not use "+
		"the keys of format 2: give them the policy deploy/iam/lease-sidecar.json, upgrade and restart them (the log of each has its name: msg=lease, owner=). "+
		"What dead ones have left is free after distributed.reap_after, or by sluice lease reset --dead. %d shards are moved; those that are stay usable",
		len(e.Owners), which, e.Moved)
}

// maxNamedOwners is the greatest number of owners that the text of a StrandedOwnersError names.
const maxNamedOwners = 20

// Migrate brings a DynamoDB table of format 1 to format 2 while sidecars run, and returns its result in words.
// Migrate closes and moves one shard after the other, and changes the settings at the end. Sidecars use the moved
// shards and close no backends. While some owners cannot use moved shards, Migrate fails before its first change. It
// may be interrupted, repeated, or run twice at once, because a partly migrated table is usable.
func (t *Table) Migrate(ctx context.Context) (did string, err error) {
	patient, err := t.forAdmin(ctx)
	if err != nil {
		return "", err
	}
	return patient.migrate(ctx, true)
}

func (t *Table) migrate(ctx context.Context, heed bool) (did string, err error) {
	now, err := t.newestKnownRevision(ctx)
	switch {
	case err != nil:
		return "", err
	case now.Shards == 0:
		return "", t.noSettingsError(t.slots)
	case now.Format == Format:
		return "the table is of format 2: nothing to migrate", nil
	}
	if err := t.checkStrandedOwners(ctx, now.Shards); err != nil && heed {
		return "", err
	}
	for shard := range now.Shards {
		found, moved, err := t.peekShardItem(ctx, shard)
		if err != nil {
			return "", fmt.Errorf("shard %d: %w", shard, err)
		}
		if strays := found.strandedOwners(); !moved && heed && len(strays) > 0 { // the strays joined while other shards were moved
			return "", &StrandedOwnersError{strays, shard}
		}
		if err := t.closeShard(ctx, shard); err != nil {
			return "", fmt.Errorf("shard %d: %w", shard, err)
		}
		if err := t.moveShard(ctx, shard); err != nil {
			return "", fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	for tries := 0; now.Format != Format; tries++ {
		want := now.Settings
		want.Format = Format
		next, done, err := t.declareRevision(ctx, now, want)
		if now = next; err != nil {
			return "", err
		}
		if done {
			break
		}
		if tries == raceTries {
			return "", errOvertaken
		}
		if now, err = t.newestKnownRevision(ctx); err != nil {
			return "", err
		}
	}
	if _, err := t.applyRevision(ctx, now); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d shards have keys of their own now: the table is of format 2", now.Shards), nil
}

// checkStrandedOwners returns a *StrandedOwnersError if a shard that was not moved yet has an owner that could not
// use the moved shard.
func (t *Table) checkStrandedOwners(ctx context.Context, shards int) error {
	e := StrandedOwnersError{}
	for shard := range shards {
		found, moved, err := t.peekShardItem(ctx, shard)
		if err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
		if moved {
			e.Moved++
		} else {
			e.Owners = append(e.Owners, found.strandedOwners()...)
		}
	}
	if len(e.Owners) == 0 {
		return nil
	}
	return &e
}

// newestKnownRevision returns the newest revision (settings and epoch) in the DynamoDB table. If the revision has the
// format of a later version, it returns an error.
func (t *Table) newestKnownRevision(ctx context.Context) (settingsRevision, error) {
	now, err := t.newestRevision(ctx)
	if err == nil && now.Format > Format {
		err = &MismatchError{Key: keyFormat, Table: now.Format, Configured: Format}
	}
	return now, err
}
