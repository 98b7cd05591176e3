package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// raceTries is how often an administrator's write is tried that somebody else's
// was faster than.
const raceTries = 20

var (
	errOvertaken = errors.New("lease: somebody else has changed the settings at the same time: look at sluice lease status")
	errRaced     = errors.New("lease: somebody else writes this item all the time: try again")
)

// An intent is what a cluster is to become: the settings, and which change of them
// that is. It stands in the table before the first shard follows it, and each
// shard that has carries its epoch; so whoever comes next can finish it, however
// the one who began it ended. A table from before there were epochs has 0 of them
// everywhere.
type intent struct {
	Settings
	epoch int64
}

// intent reads the newest one; the zero intent if there is none.
func (t *Table) intent(ctx context.Context) (intent, error) {
	found, _, err := t.read(ctx, t.slots, t.address(itemSettings), true)
	if err == nil {
		t.places.own.Store(found.intent().Format >= Format)
	}
	return found.intent(), err
}

func (i item) intent() intent { return intent{i.settings(), i.number(attrEpoch)} }

// declare replaces an intent by one of other settings. It fails to, without an
// error, when old is not the newest one any more.
func (t *Table) declare(ctx context.Context, old intent, want Settings) (intent, bool, error) {
	next := intent{want, old.epoch + 1}
	// A version before epochs may have written settings without one.
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

// put writes an intent in place of another, which does not expire. It says that it
// did not when the other is not there any more, perhaps because an earlier sending
// of this very call has arrived.
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

// follow makes the shards, and the settings of the table of tickets, follow an
// intent. It stops when that is not the newest one any more.
func (t *Table) follow(ctx context.Context, now intent) (changed bool, err error) {
	for shard := range now.Shards {
		did, err := t.relimit(ctx, now, shard)
		if err != nil {
			return changed, fmt.Errorf("shard %d: %w", shard, err)
		}
		changed = changed || did
	}
	did, err := t.retell(ctx, now)
	if err != nil {
		return changed, err
	}
	return changed || did, t.newest(ctx, now)
}

// newest fails when an intent is not the newest one any more.
func (t *Table) newest(ctx context.Context, now intent) error {
	found, err := t.intent(ctx)
	if err == nil && found != now {
		err = errOvertaken
	}
	return err
}

// followed reports whether a shard's item is as an intent wants it.
func (i item) followed(now intent, shard int) bool {
	return len(i) > 0 && i.number(attrLimit) == int64(now.shardLimit(shard)) && i.number(attrEpoch) == now.epoch
}

// relimit makes a shard follow an intent, or makes the shard. The difference of the
// limits comes from what is free, which may fall below 0: then nothing is granted
// until enough came back. Changes of sidecars move free and records together, so
// that the difference is right whatever they do meanwhile; twice it must not be
// taken, and is not: the limit and the epoch that it was reckoned from are replaced
// with it. Whether the intent is the newest is looked at after the shard: who has
// moved the shard on since makes the write fail.
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

// retell makes the settings in a table of its own for the tickets follow an intent.
func (t *Table) retell(ctx context.Context, now intent) (changed bool, err error) {
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
