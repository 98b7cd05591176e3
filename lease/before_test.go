package lease

import (
	"context"
	"fmt"
)

// versionBefore is the table as the version before format 2 used it: its code, but for
// where an item's key is made. It knows nothing of closed items.
type versionBefore struct{ *Table }

func (versionBefore) FindsMovedShards() bool { return false }

// Settings shows another format than its own as one that no version knows: to such it
// does what this version does to those.
func (t versionBefore) Settings(ctx context.Context) (Settings, TableTime, error) {
	found, at, err := t.readItem(ctx, t.slots, t.clusterItemAddress(itemSettings), true)
	s := found.settings()
	if err == nil && len(found) == 0 {
		err = ErrNoSettings
	}
	if s.Format != formatOneKey {
		s.Format = Format + 1
	}
	return s, at, err
}

func (t versionBefore) Look(ctx context.Context, shard int) (Shard, error) {
	found, _, err := t.readItem(ctx, t.slots, t.sharedKeyAddress(shard), false)
	return found.shard(), err
}

// agree is its sluice lease init, where the table is there.
func (t versionBefore) agree(ctx context.Context, cfg Config) error {
	for range raceTries {
		found, _, err := t.readItem(ctx, t.slots, t.clusterItemAddress(itemSettings), true)
		if err != nil {
			return err
		}
		now, want := found.revision(), cfg.tableSettings()
		want.Format = formatOneKey
		if now.Shards > 0 {
			want.Shards = now.Shards
		}
		done := true
		if now.Settings != want {
			if now, done, err = t.declare(ctx, now, want); err != nil {
				return err
			}
		}
		if !done {
			continue
		}
		for shard := range now.Shards {
			if _, err := t.relimit(ctx, now, shard); err != nil {
				return err
			}
		}
		return nil
	}
	return errOvertaken
}

func (t versionBefore) newest(ctx context.Context, now settingsRevision) error {
	found, _, err := t.readItem(ctx, t.slots, t.clusterItemAddress(itemSettings), true)
	if err == nil && found.revision() != now {
		err = errOvertaken
	}
	return err
}

func (t versionBefore) Change(ctx context.Context, c ShardChange) (Shard, bool, error) {
	u := itemUpdate{table: t.slots, at: t.sharedKeyAddress(c.Shard)}
	owner := ownerPrefix + c.Owner
	switch {
	case c.Old == "" && c.Take > 0:
		u.addCondition("attribute_not_exists(%s) AND (attribute_not_exists(%s) OR %s >= %s)",
			u.namePlaceholder(owner), u.namePlaceholder(attrFree), u.namePlaceholder(attrFree), u.numberPlaceholder(int64(c.Take)))
	case c.Old == "":
		u.addCondition("attribute_not_exists(%s)", u.namePlaceholder(owner))
	case c.Take > 0:
		u.addCondition("%s = %s AND %s >= %s", u.namePlaceholder(owner), u.textPlaceholder(c.Old), u.namePlaceholder(attrFree), u.numberPlaceholder(int64(c.Take)))
	default:
		u.addCondition("%s = %s", u.namePlaceholder(owner), u.textPlaceholder(c.Old))
	}
	switch {
	case c.Old == "":
		limit := u.numberPlaceholder(int64(c.Limit))
		u.addSetClause("%s = if_not_exists(%s, %s) - %s", u.namePlaceholder(attrFree), u.namePlaceholder(attrFree), limit, u.numberPlaceholder(int64(c.Take)))
		u.addSetClause("%s = if_not_exists(%s, %s)", u.namePlaceholder(attrLimit), u.namePlaceholder(attrLimit), limit)
	case c.Take != 0:
		u.addSetClause("%s = %s - %s", u.namePlaceholder(attrFree), u.namePlaceholder(attrFree), u.numberPlaceholder(int64(c.Take)))
	}
	if c.New != "" {
		u.addSetClause("%s = %s", u.namePlaceholder(owner), u.textPlaceholder(c.New))
	} else {
		u.addRemoveClause(u.namePlaceholder(owner))
	}
	after, done, _, err := t.updateItem(ctx, &u)
	return after.shard(), done, err
}

func (t versionBefore) declare(ctx context.Context, old settingsRevision, want Settings) (settingsRevision, bool, error) {
	next := settingsRevision{want, old.epoch + 1}
	// A version before epochs may have written settings without one.
	for shard := range want.Shards {
		found, _, err := t.readItem(ctx, t.slots, t.sharedKeyAddress(shard), true)
		if err != nil {
			return next, false, fmt.Errorf("shard %d: %w", shard, err)
		}
		next.epoch = max(next.epoch, found.number(attrEpoch)+1)
	}
	done, err := t.replaceSettings(ctx, t.slots, old, next)
	return next, done, err
}

func (t versionBefore) relimit(ctx context.Context, now settingsRevision, shard int) (changed bool, err error) {
	limit := int64(now.shardLimit(shard))
	for range raceTries {
		found, _, err := t.readItem(ctx, t.slots, t.sharedKeyAddress(shard), true)
		if err != nil || found.hasApplied(now, shard) {
			return changed, err
		}
		if err := t.newest(ctx, now); err != nil {
			return changed, err
		}
		u := itemUpdate{table: t.slots, at: t.sharedKeyAddress(shard)}
		if len(found) == 0 {
			u.addCondition("attribute_not_exists(%s)", u.namePlaceholder(attrFree))
			u.addSetClause("%s = %s", u.namePlaceholder(attrFree), u.numberPlaceholder(limit))
		} else {
			old := found.number(attrLimit)
			u.addCondition("%s = %s", u.namePlaceholder(attrLimit), u.numberPlaceholder(old))
			u.requireUnchanged(attrEpoch, found.number(attrEpoch))
			if limit != old {
				u.addSetClause("%s = %s + %s", u.namePlaceholder(attrFree), u.namePlaceholder(attrFree), u.numberPlaceholder(limit-old))
			}
		}
		u.addSetClause("%s = %s", u.namePlaceholder(attrLimit), u.numberPlaceholder(limit))
		if now.epoch > 0 {
			u.addSetClause("%s = %s", u.namePlaceholder(attrEpoch), u.numberPlaceholder(now.epoch))
		} else { // of a version before epochs; none is not 0
			u.addRemoveClause(u.namePlaceholder(attrEpoch))
		}
		if _, done, _, err := t.updateItem(ctx, &u); err != nil {
			return changed, err
		} else if done {
			return true, nil
		}
		changed = true // perhaps by an earlier sending of this very write
	}
	return changed, errRaced
}
