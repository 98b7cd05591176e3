package lease

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-proxy/sluice/metrics"
)

// These are the formats of a table's items. Format 2 exists because DynamoDB accepts at most 1,000 write units per
// second for one partition key.
const (
	// formatOneKey is the format in which all items of a cluster have one partition key.
	formatOneKey = 1
	// Format is the newest format, in which each shard's item has its own partition key. In both formats, the settings and
	// the time of the next ticket (right to dial once) have the cluster's key.
	Format = 2
)

// itemAddress is the primary key of an item in DynamoDB: partition key and sort key.
type itemAddress struct{ partition, item string }

func (a itemAddress) primaryKey() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrCluster: textAttr(a.partition), attrItem: textAttr(a.item)}
}

// clusterItemAddress returns the address of one of the cluster's items that belong to no shard: its settings, or the
// time of its next ticket (right to dial once).
func (t *Table) clusterItemAddress(item string) itemAddress { return itemAddress{t.cluster, item} }

// sharedKeyAddress returns the address of a shard's item in format 1. In a DynamoDB table of format 2, that address
// has a closed item, which accepts no change.
func (t *Table) sharedKeyAddress(shard int) itemAddress {
	return t.clusterItemAddress(shardSortKey(shard))
}

// ownKeyAddress returns the address of a shard's item in format 2. No cluster's name contains the # of this key.
func (t *Table) ownKeyAddress(shard int) itemAddress {
	return itemAddress{fmt.Sprintf("%s#%03d", t.cluster, shard), shardSortKey(shard)}
}

func shardSortKey(shard int) string { return fmt.Sprintf("S#%03d", shard) }

// shardLocations holds, as far as this process knows, whether each shard's item is under its own key (format 2).
type shardLocations struct {
	own     atomic.Bool            // the settings are of format 2: all shards are under their own keys
	moved   [maxShards]atomic.Bool // shards under their own keys while the settings are of format 1
	follows atomic.Bool            // this process may use the shards' own keys
}

func (p *shardLocations) isUnderOwnKey(shard int) (own bool) {
	return p.own.Load() || p.moved[shard].Load()
}

// recordFormat records the format of settings that were just read. While the format is 1, recordFormat tests by a read
// whether IAM lets this process use the shards' own keys.
func (t *Table) recordFormat(ctx context.Context, format int) {
	own := format >= Format
	if t.places.own.Swap(own) && !own { // after an init by an older version, or with another table
		for shard := range t.places.moved {
			t.places.moved[shard].Store(false)
		}
	}
	if !own && !t.places.follows.Load() {
		_, _, err := t.readItem(ctx, t.slots, t.ownKeyAddress(0), false)
		own = err == nil
	}
	if own {
		t.places.follows.Store(true)
	}
}

// FindsMovedShards implements Store: it reports whether this process can use shards that were moved to their own keys.
func (t *Table) FindsMovedShards() bool { return t.places.follows.Load() }

// readShardItem returns a shard's item and its address. If the item of format 1 is closed, readShardItem first moves it
// to the shard's own key.
func (t *Table) readShardItem(ctx context.Context, shard int, consistent bool) (itemAttrs, itemAddress, error) {
	if !t.places.isUnderOwnKey(shard) {
		found, _, err := t.readItem(ctx, t.slots, t.sharedKeyAddress(shard), consistent)
		if err != nil || !found.isClosed() {
			return found, t.sharedKeyAddress(shard), err
		}
		if err := t.moveShard(ctx, shard); err != nil {
			return nil, itemAddress{}, err
		}
		consistent = true // the item may be new
	}
	found, _, err := t.readItem(ctx, t.slots, t.ownKeyAddress(shard), consistent)
	return found, t.ownKeyAddress(shard), err
}

// peekShardItem returns a shard's item and writes nothing. A closed item of format 1 that was not moved is shown as it
// will be after its move.
func (t *Table) peekShardItem(ctx context.Context, shard int) (found itemAttrs, moved bool, err error) {
	if !t.places.own.Load() {
		found, _, err = t.readItem(ctx, t.slots, t.sharedKeyAddress(shard), true)
		if err != nil || !found.isClosed() {
			return found, false, err
		}
	}
	own, _, err := t.readItem(ctx, t.slots, t.ownKeyAddress(shard), true)
	if err == nil && !own.isComplete() && found.isClosed() {
		return found.movedContent(), true, nil
	}
	return own, true, err
}

// Look implements Store. It reads one shard.
func (t *Table) Look(ctx context.Context, shard int) (Shard, error) {
	found, _, err := t.readShardItem(ctx, shard, false)
	return found.shard(), err
}

// Change implements Store: it makes one conditional write of a shard. A closed item of format 1 accepts no change, so
// the same change goes to the item at the shard's own key, which has the same record.
func (t *Table) Change(ctx context.Context, c ShardChange) (Shard, bool, error) {
	if !t.places.isUnderOwnKey(c.Shard) {
		found, done, err := t.updateShardAt(ctx, c, t.sharedKeyAddress(c.Shard), true)
		if err != nil || !found.isClosed() {
			return found.shard(), done, err
		}
		if err := t.moveShard(ctx, c.Shard); err != nil {
			return Shard{}, false, err
		}
	}
	// Only a process that has read settings of format 2 may create a missing item, since a migration may create the same
	// item.
	begins := t.places.own.Load()
	found, done, err := t.updateShardAt(ctx, c, t.ownKeyAddress(c.Shard), begins)
	if err == nil && !begins && len(found) == 0 {
		t.places.moved[c.Shard].Store(false)
		err = &TableError{Cause: metrics.CauseOther, Table: t.slots, Region: t.api.Options().Region, Err: errNotMoved}
	}
	return found.shard(), done, err
}

// updateShardAt makes a change of the item at an address. begins allows a new record to create a missing item.
func (t *Table) updateShardAt(ctx context.Context, c ShardChange, at itemAddress, begins bool) (itemAttrs, bool, error) {
	u := itemUpdate{table: t.slots, at: at}
	u.addCondition("attribute_not_exists(%s)", u.namePlaceholder(attrClosed))
	owner := ownerPrefix + c.Owner
	switch {
	case c.Old != "":
		u.addCondition("%s = %s", u.namePlaceholder(owner), u.textPlaceholder(c.Old))
	case !begins:
		u.addCondition("attribute_not_exists(%s) AND attribute_exists(%s)", u.namePlaceholder(owner), u.namePlaceholder(attrFree))
	default:
		u.addCondition("attribute_not_exists(%s)", u.namePlaceholder(owner))
	}
	switch {
	case c.Old == "" && c.Take > 0:
		u.addCondition("(attribute_not_exists(%s) OR %s >= %s)", u.namePlaceholder(attrFree), u.namePlaceholder(attrFree), u.numberPlaceholder(int64(c.Take)))
	case c.Take > 0:
		u.addCondition("%s >= %s", u.namePlaceholder(attrFree), u.numberPlaceholder(int64(c.Take)))
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
	found, done, _, err := t.updateItem(ctx, &u)
	return found, done, err
}
