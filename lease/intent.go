package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// raceTries is how often an administrator's write is tried again after another process changed the item first.
const raceTries = 20

var (
	errOvertaken = errors.New("lease: somebody else has changed the settings at the same time: look at sluice lease status")
	errRaced     = errors.New("lease: somebody else writes this item all the time: try again")
)

// An intent is a numbered change of the settings. The intent is written before the first shard follows it, and each
// shard that follows has the intent's epoch, its number. So any later process can finish a change that was interrupted.
// In tables of versions without epochs, every epoch is 0.
type intent struct {
	Settings
	epoch int64
}

// intent returns the newest intent in the table, or the zero intent if there is none.
func (t *Table) intent(ctx context.Context) (intent, error) {
	found, _, err := t.read(ctx, t.slots, t.address(itemSettings), true)
	if err == nil {
		t.places.own.Store(found.intent().Format >= Format)
	}
	return found.intent(), err
}

func (i item) intent() intent { return intent{i.settings(), i.number(attrEpoch)} }

// declare replaces the intent old in the table by one with other settings. declare returns false when old is no longer
// the newest intent.
func (t *Table) declare(ctx context.Context, old intent, want Settings) (intent, bool, error) {
	next := intent{want, old.epoch + 1}
	// The new epoch must exceed those of all shards, because an older version may have written settings without an epoch.
	for shard := range want.Shards {
		found, _, err := t.locate(ctx, shard, true)
		if err != nil {
			return next, false, fmt.Errorf("shard %d: %w", shard, err)
		}
		next.epoch = max(next.epoch, found.number(attrEpoch)+1)
	}
	done, err := t.put(ctx, t.slots, old, next)
	return next, done, err
}

// put replaces the intent old by next, in an item that does not expire. put returns false when old is not in the table.
// An earlier sending of the same call may be the reason.
func (t *Table) put(ctx context.Context, table string, old, next intent) (done bool, err error) {
	u := update{}
	fields := func(i intent) map[string]int64 {
		return map[string]int64{attrFormat: int64(i.Format), attrShards: int64(i.Shards), attrLimit: int64(i.Limit),
			attrRate: int64(i.Rate), attrBurst: int64(i.Burst)}
	}
	if old == (intent{}) {
		u.require("attribute_not_exists(%s)", u.name(attrCluster))
	} else {
		u.demand(attrEpoch, old.epoch)
		for name, n := range fields(old) {
			u.demand(name, n)
		}
	}
	values := t.address(itemSettings).key()
	if next.epoch > 0 {
		values[attrEpoch] = number(next.epoch)
	}
	for name, n := range fields(next) {
		values[name] = number(n)
	}
	_, err = t.items.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: values, ConditionExpression: aws.String(u.condition),
		ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values})
	_, failed := errors.AsType[*types.ConditionalCheckFailedException](err)
	if err != nil && !failed {
		return false, t.explain(table, err)
	}
	return err == nil, nil
}

// follow applies an intent to all shards, and to the settings in the table of tickets (rights to dial). follow returns
// errOvertaken when the intent is no longer the newest one.
func (t *Table) follow(ctx context.Context, now intent) (changed bool, err error) {
	for shard := range now.Shards {
		did, err := t.relimit(ctx, now, shard)
		if err != nil {
			return changed, fmt.Errorf("shard %d: %w", shard, err)
		}
		changed = changed || did
	}
	did, err := t.followRate(ctx, now)
	if err != nil {
		return changed, err
	}
	return changed || did, t.newest(ctx, now)
}

// newest returns errOvertaken if now is no longer the newest intent in the table.
func (t *Table) newest(ctx context.Context, now intent) error {
	found, err := t.intent(ctx)
	if err == nil && found != now {
		err = errOvertaken
	}
	return err
}

// followed reports whether a shard's item already has the limit and the epoch of an intent.
func (i item) followed(now intent, shard int) bool {
	return len(i) > 0 && i.number(attrLimit) == int64(now.shardLimit(shard)) && i.number(attrEpoch) == now.epoch
}

// relimit applies an intent to a shard, or creates the shard. The difference between new and old limit is added to the
// free slots. If these fall below 0, nothing is granted until enough slots have come back.
//
// Sidecars change free slots and records together, so the difference stays right meanwhile. The difference is applied
// once only, because the write requires the limit and the epoch from which it was calculated. The newest intent is read
// after the shard, so that a later change of the shard makes the write fail.
func (t *Table) relimit(ctx context.Context, now intent, shard int) (changed bool, err error) {
	limit := int64(now.shardLimit(shard))
	for range raceTries {
		found, at, err := t.locate(ctx, shard, true)
		if err != nil || found.followed(now, shard) {
			return changed, err
		}
		if err := t.newest(ctx, now); err != nil {
			return changed, err
		}
		u := update{table: t.slots, at: at}
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
		} else { // the settings have no epoch: an absent attribute is not 0
			u.remove(u.name(attrEpoch))
		}
		if _, done, _, err := t.write(ctx, &u); err != nil {
			return changed, err
		} else if done {
			return true, nil
		}
		changed = true // perhaps an earlier sending of this write succeeded
	}
	return changed, errRaced
}

// followRate applies an intent to the settings in the table of tickets (rights to dial). followRate changes nothing if
// slots and tickets share a table.
func (t *Table) followRate(ctx context.Context, now intent) (changed bool, err error) {
	for range raceTries {
		found, _, err := t.read(ctx, t.rate, t.address(itemSettings), true)
		if err != nil || found.intent() == now {
			return false, err
		}
		if err := t.newest(ctx, now); err != nil {
			return false, err
		}
		if done, err := t.put(ctx, t.rate, found.intent(), now); done || err != nil {
			return done, err
		}
	}
	return false, errRaced
}
