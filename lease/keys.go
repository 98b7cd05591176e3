package lease

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-proxy/sluice/metrics"
)

// Formats of the items. DynamoDB takes 1,000 write units per second for one
// partition key at most.
const (
	// formatOneKey has all items of a cluster under its own partition key.
	formatOneKey = 1
	// Format, the newest one, has each shard's item under a key of its own. The
	// settings, which are read alone, and the next ticket's time stay where they were.
	Format = 2
)

// address of an item: its partition key and its sort key.
type address struct{ partition, item string }

func (a address) key() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrCluster: text(a.partition), attrItem: text(a.item)}
}

// address of an item of the cluster that is no shard's.
func (t *Table) address(item string) address { return address{t.cluster, item} }

// oneKey is where a shard's item is in format 1. In format 2 there is a closed one.
func (t *Table) oneKey(shard int) address { return t.address(shardItem(shard)) }

// ownKey is where it is in format 2. A cluster's name has no # in it.
func (t *Table) ownKey(shard int) address {
	return address{fmt.Sprintf("%s#%03d", t.cluster, shard), shardItem(shard)}
}

func shardItem(shard int) string { return fmt.Sprintf("S#%03d", shard) }

// places is what a process knows of where the shards are.
type places struct {
	own     atomic.Bool            // the settings are of format 2: no shard is under the cluster's key
	moved   [maxShards]atomic.Bool // if they are not: these are under their own all the same
	follows atomic.Bool            // this process may use the shards' own keys
}

func (p *places) at(shard int) (own bool) { return p.own.Load() || p.moved[shard].Load() }

// learn is told the format that the settings have just now. While they are of format
// 1 it finds out, with a read, whether this process may use the shards' own keys.
func (t *Table) learn(ctx context.Context, format int) {
	own := format >= Format
	if t.places.own.Swap(own) && !own { // an init of an older version, or another table
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

// locate reads a shard's item, and says where it is. If it was closed and not moved
// yet, it is moved first.
func (t *Table) locate(ctx context.Context, shard int, consistent bool) (item, address, error) {
	if !t.places.at(shard) {
		found, _, err := t.read(ctx, t.slots, t.oneKey(shard), consistent)
		if err != nil || !found.closed() {
			return found, t.oneKey(shard), err
		}
		if err := t.move(ctx, shard); err != nil {
			return nil, address{}, err
		}
		consistent = true // it may be new
	}
	found, _, err := t.read(ctx, t.slots, t.ownKey(shard), consistent)
	return found, t.ownKey(shard), err
}

// peek is locate that changes nothing: a shard that was closed and not moved yet is
// shown as it will be.
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

// Change implements Store. An item that was closed takes no change, whenever it was
// sent: then the same change is for the item that it was moved to, where the record
// stands as it stood.
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
	// Who knows of no format 2 yet must not make an item that expects to be moved.
	begins := t.places.own.Load()
	found, done, err := t.change(ctx, c, t.ownKey(c.Shard), begins)
	if err == nil && !begins && len(found) == 0 {
		t.places.moved[c.Shard].Store(false)
		err = &TableError{Cause: metrics.CauseOther, Table: t.slots, Region: t.api.Options().Region, Err: errNotMoved}
	}
	return found.shard(), done, err
}

// change makes a change of the item at an address. If begins, and there is none, a
// record that is new makes it.
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
