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

// address is the primary key of an item in DynamoDB: partition key and sort key.
type address struct{ partition, item string }

func (a address) key() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrCluster: text(a.partition), attrItem: text(a.item)}
}

// address returns the address of one of the cluster's items that belong to no shard: its settings, or the time of its
// next ticket (right to dial once).
func (t *Table) address(item string) address { return address{t.cluster, item} }

// oneKey returns the address of a shard's item in format 1. In a table of format 2, that address has a closed item,
// which accepts no change.
func (t *Table) oneKey(shard int) address { return t.address(shardItem(shard)) }

// ownKey returns the address of a shard's item in format 2. The character # cannot occur in a cluster's name.
func (t *Table) ownKey(shard int) address {
	return address{fmt.Sprintf("%s#%03d", t.cluster, shard), shardItem(shard)}
}

func shardItem(shard int) string { return fmt.Sprintf("S#%03d", shard) }

// places holds, as far as this process knows, whether each shard's item is under its own key (format 2).
type places struct {
	own     atomic.Bool            // the settings are of format 2: all shards are under their own keys
	moved   [maxShards]atomic.Bool // shards under their own keys while the settings are of format 1
	follows atomic.Bool            // this process may use the shards' own keys
}

func (p *places) at(shard int) (own bool) { return p.own.Load() || p.moved[shard].Load() }

// learn records the format of settings that were just read. While the format is 1, learn tests by a read whether IAM
// lets this process use the shards' own keys.
func (t *Table) learn(ctx context.Context, format int) {
	own := format >= Format
	if t.places.own.Swap(own) && !own { // after an init by an older version, or with another table
		for shard := range t.places.moved {
			t.places.moved[shard].Store(false)
		}
	}
	if !own && !t.places.follows.Load() {
		_, _, err := t.read(ctx, t.slots, t.ownKey(0), false)
		own = err == nil
	}
	if own {
		t.places.follows.Store(true)
	}
}

// Follows implements Store: it reports whether this process can use shards that were moved to their own keys.
func (t *Table) Follows() bool { return t.places.follows.Load() }

// locate returns a shard's item and its address. If the item of format 1 is closed, locate first moves it to the
// shard's own key.
func (t *Table) locate(ctx context.Context, shard int, consistent bool) (item, address, error) {
	if !t.places.at(shard) {
		found, _, err := t.read(ctx, t.slots, t.oneKey(shard), consistent)
		if err != nil || !found.closed() {
			return found, t.oneKey(shard), err
		}
		if err := t.move(ctx, shard); err != nil {
			return nil, address{}, err
		}
		consistent = true // the item may be new
	}
	found, _, err := t.read(ctx, t.slots, t.ownKey(shard), consistent)
	return found, t.ownKey(shard), err
}

// peek returns a shard's item and writes nothing. A closed item of format 1 that was not moved is shown as it will be
// after its move.
func (t *Table) peek(ctx context.Context, shard int) (found item, moved bool, err error) {
	if !t.places.own.Load() {
		found, _, err = t.read(ctx, t.slots, t.oneKey(shard), true)
		if err != nil || !found.closed() {
			return found, false, err
		}
	}
	own, _, err := t.read(ctx, t.slots, t.ownKey(shard), true)
	if err == nil && !own.whole() && found.closed() {
		return found.asMoved(), true, nil
	}
	return own, true, err
}

// Look implements Store: it reads one shard.
func (t *Table) Look(ctx context.Context, shard int) (Shard, error) {
	found, _, err := t.locate(ctx, shard, false)
	return found.shard(), err
}

// Change implements Store: it makes one conditional write of a shard. A closed item of format 1 accepts no change, so
// the same change goes to the item at the shard's own key, which has the same record.
func (t *Table) Change(ctx context.Context, c Change) (Shard, bool, error) {
	if !t.places.at(c.Shard) {
		found, done, err := t.change(ctx, c, t.oneKey(c.Shard), true)
		if err != nil || !found.closed() {
			return found.shard(), done, err
		}
		if err := t.move(ctx, c.Shard); err != nil {
			return Shard{}, false, err
		}
	}
	// A process that has not read settings of format 2 must not create an item that a migration will create.
	begins := t.places.own.Load()
	found, done, err := t.change(ctx, c, t.ownKey(c.Shard), begins)
	if err == nil && !begins && len(found) == 0 {
		t.places.moved[c.Shard].Store(false)
		err = &TableError{Cause: metrics.CauseOther, Table: t.slots, Region: t.api.Options().Region, Err: errNotMoved}
	}
	return found.shard(), done, err
}

// change makes a change of the item at an address. begins allows a new record to create a missing item.
func (t *Table) change(ctx context.Context, c Change, at address, begins bool) (item, bool, error) {
	u := update{table: t.slots, at: at}
	u.require("attribute_not_exists(%s)", u.name(attrClosed))
	owner := ownerPrefix + c.Owner
	switch {
	case c.Old != "":
		u.require("%s = %s", u.name(owner), u.text(c.Old))
	case !begins:
		u.require("attribute_not_exists(%s) AND attribute_exists(%s)", u.name(owner), u.name(attrFree))
	default:
		u.require("attribute_not_exists(%s)", u.name(owner))
	}
	switch {
	case c.Old == "" && c.Take > 0:
		u.require("(attribute_not_exists(%s) OR %s >= %s)", u.name(attrFree), u.name(attrFree), u.number(int64(c.Take)))
	case c.Take > 0:
		u.require("%s >= %s", u.name(attrFree), u.number(int64(c.Take)))
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
	found, done, _, err := t.write(ctx, &u)
	return found, done, err
}
