package lease

import (
	"context"
	"fmt"
)

// versionBefore is the table as the version before format 2 used it: its code, but for
// where an item's key is made. It knows nothing of closed items.
type versionBefore struct{ *Table }

func (versionBefore) Follows() bool { return false }

// Settings shows another format than its own as one that no version knows: to such it
// does what this version does to those.
func (t versionBefore) Settings(ctx context.Context) (Settings, Stamp, error) {
	found, at, err := t.read(ctx, t.slots, t.address(itemSettings), true)
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
	found, _, err := t.read(ctx, t.slots, t.oneKey(shard), false)
	return found.shard(), err
}

// agree is its sluice lease init, where the table is there.
func (t versionBefore) agree(ctx context.Context, cfg Config) error {
	for range raceTries {
		found, _, err := t.read(ctx, t.slots, t.address(itemSettings), true)
		if err != nil {
			return err
		}
		now, want := found.intent(), cfg.settings()
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

func (t versionBefore) newest(ctx context.Context, now intent) error {
	found, _, err := t.read(ctx, t.slots, t.address(itemSettings), true)
	if err == nil && found.intent() != now {
		err = errOvertaken
	}
	return err
}

func (t versionBefore) Change(ctx context.Context, c Change) (Shard, bool, error) {
	u := update{table: t.slots, at: t.oneKey(c.Shard)}
	owner := ownerPrefix + c.Owner
	switch {
	case c.Old == "" && c.Take > 0:
		u.require("attribute_not_exists(%s) AND (attribute_not_exists(%s) OR %s >= %s)",
			u.name(owner), u.name(attrFree), u.name(attrFree), u.number(int64(c.Take)))
	case c.Old == "":
		u.require("attribute_not_exists(%s)", u.name(owner))
	case c.Take > 0:
		u.require("%s = %s AND %s >= %s", u.name(owner), u.text(c.Old), u.name(attrFree), u.number(int64(c.Take)))
	default:
		u.require("%s = %s", u.name(owner), u.text(c.Old))
	}
	switch {
	case c.Old == "":
		limit := u.number(int64(c.Limit))
		u.set("%s = if_not_exists(%s, %s) - %s", u.name(attrFree), u.name(attrFree), limit, u.number(int64(c.Take)))
		u.set("%s = if_not_exists(%s, %s)", u.name(attrLimit), u.name(attrLimit), limit)
	case c.Take != 0:
		u.set("%s = %s - %s", u.name(attrFree), u.name(attrFree), u.number(int64(c.Take)))
	}
	if c.New != "" {
		u.set("%s = %s", u.name(owner), u.text(c.New))
	} else {
		u.remove(u.name(owner))
	}
	after, done, _, err := t.write(ctx, &u)
	return after.shard(), done, err
}

func (t versionBefore) declare(ctx context.Context, old intent, want Settings) (intent, bool, error) {
	next := intent{want, old.epoch + 1}
	// A version before epochs may have written settings without one.
	for shard := range want.Shards {
		found, _, err := t.read(ctx, t.slots, t.oneKey(shard), true)
		if err != nil {
			return next, false, fmt.Errorf("shard %d: %w", shard, err)
		}
		next.epoch = max(next.epoch, found.number(attrEpoch)+1)
	}
	done, err := t.put(ctx, t.slots, old, next)
	return next, done, err
}

func (t versionBefore) relimit(ctx context.Context, now intent, shard int) (changed bool, err error) {
	limit := int64(now.shardLimit(shard))
	for range raceTries {
		found, _, err := t.read(ctx, t.slots, t.oneKey(shard), true)
		if err != nil || found.followed(now, shard) {
			return changed, err
		}
		if err := t.newest(ctx, now); err != nil {
			return changed, err
		}
		u := update{table: t.slots, at: t.oneKey(shard)}
		if len(found) == 0 {
			u.require("attribute_not_exists(%s)", u.name(attrFree))
			u.set("%s = %s", u.name(attrFree), u.number(limit))
		} else {
			old := found.number(attrLimit)
			u.require("%s = %s", u.name(attrLimit), u.number(old))
			u.demand(attrEpoch, found.number(attrEpoch))
			if limit != old {
				u.set("%s = %s + %s", u.name(attrFree), u.name(attrFree), u.number(limit-old))
			}
		}
		u.set("%s = %s", u.name(attrLimit), u.number(limit))
		if now.epoch > 0 {
			u.set("%s = %s", u.name(attrEpoch), u.number(now.epoch))
		} else { // of a version before epochs; none is not 0
			u.remove(u.name(attrEpoch))
		}
		if _, done, _, err := t.write(ctx, &u); err != nil {
			return changed, err
		} else if done {
			return true, nil
		}
		changed = true // perhaps by an earlier sending of this very write
	}
	return changed, errRaced
}
