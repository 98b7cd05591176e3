package lease

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-proxy/sluice/metrics"
)

// These are the formats of the items. DynamoDB accepts at most 1,000 write units per second for one
// partition key.
const (
	// formatOneKey has all items of a cluster under one partition key.
	formatOneKey = 1
	// Format, the newest one, has each shard's item under its own key. The settings and the time of
	// the next ticket have the cluster's key in both formats.
	Format = 2
)

// address is an item's partition key and sort key.
type address struct{ partition, item string }

func (a address) key() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrCluster: text(a.partition), attrItem: text(a.item)}
}

// address returns the address of an item of the cluster that belongs to no shard.
func (t *Table) address(item string) address { return address{t.cluster, item} }

// oneKey returns the address of a shard's item in format 1. A table of format 2 has a closed item
// there.
func (t *Table) oneKey(shard int) address { return t.address(shardItem(shard)) }

// ownKey returns the address of a shard's item in format 2. A cluster's name contains no #.
func (t *Table) ownKey(shard int) address {
	return address{fmt.Sprintf("%s#%03d", t.cluster, shard), shardItem(shard)}
}

func shardItem(shard int) string { return fmt.Sprintf("S#%03d", shard) }

// places holds where the shards are, as far as this process knows.
type places struct {
	own     atomic.Bool            // the settings are of format 2: all shards are under their own keys
	moved   [maxShards]atomic.Bool // shards under their own keys while the settings are of format 1
	follows atomic.Bool            // this process may use the shards' own keys
}

func (p *places) at(shard int) (own bool) { return p.own.Load() || p.moved[shard].Load() }

// learn records the format of newly read settings. While it is format 1, learn tries with a read
// whether this process may use the shards' own keys.
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

// Follows implements Store.
func (t *Table) Follows() bool { return t.places.follows.Load() }

// locate returns a shard's item and its address. It moves a closed item first.
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

// peek returns a shard's item and changes nothing. It shows a closed item as it will be after its
// move.
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

// Look implements Store.
func (t *Table) Look(ctx context.Context, shard int) (Shard, error) {
	found, _, err := t.locate(ctx, shard, false)
	return found.shard(), err
}

// Change implements Store. A closed item accepts no change, so the same change goes to the item at
// the new key, which has the same record.
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
	// A process that has not read of format 2 must not create an item that expects to be moved.
	begins := t.places.own.Load()
	found, done, err := t.change(ctx, c, t.ownKey(c.Shard), begins)
	if err == nil && !begins && len(found) == 0 {
		t.places.moved[c.Shard].Store(false)
		err = &TableError{Cause: metrics.CauseOther, Table: t.slots, Region: t.api.Options().Region, Err: errNotMoved}
	}
	return found.shard(), done, err
}

// change makes a change of the item at an address. With begins, a new record creates a missing
// item.
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
