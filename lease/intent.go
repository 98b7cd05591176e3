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

// A settingsRevision is a numbered change of the settings. A process writes it before it applies it to the first
// shard. Each shard to which it was applied has its number, the epoch. So any later process can finish a change that
// was interrupted. In tables of versions without epochs, every epoch is 0.
type settingsRevision struct {
	Settings
	epoch int64
}

// newestRevision returns the newest revision of the settings in DynamoDB, or the zero settingsRevision for none.
func (t *Table) newestRevision(ctx context.Context) (settingsRevision, error) {
	found, _, err := t.readItem(ctx, t.slots, t.clusterItemAddress(itemSettings), true)
	if err == nil {
		t.places.own.Store(found.revision().Format >= Format)
	}
	return found.revision(), err
}

func (i itemAttrs) revision() settingsRevision {
	return settingsRevision{i.settings(), i.number(attrEpoch)}
}

// declareRevision replaces old, the newest revision in the DynamoDB table, by a revision with the settings want. It
// returns false when old is no longer the newest revision.
func (t *Table) declareRevision(ctx context.Context, old settingsRevision, want Settings) (settingsRevision, bool, error) {
	next := settingsRevision{want, old.epoch + 1}
	// The new epoch must exceed the epochs of all shards, because an older version may have written settings without an
	// epoch.
	for shard := range want.Shards {
		found, _, err := t.readShardItem(ctx, shard, true)
		if err != nil {
			return next, false, fmt.Errorf("shard %d: %w", shard, err)
		}
		next.epoch = max(next.epoch, found.number(attrEpoch)+1)
	}
	done, err := t.replaceSettings(ctx, t.slots, old, next)
	return next, done, err
}

// replaceSettings replaces the revision old by next, in an item that does not expire. It returns false when old is
// not in the DynamoDB table, perhaps because an earlier sending of the same call has replaced it.
func (t *Table) replaceSettings(ctx context.Context, table string, old, next settingsRevision) (done bool, err error) {
	u := itemUpdate{}
	fields := func(i settingsRevision) map[string]int64 {
		return map[string]int64{attrFormat: int64(i.Format), attrShards: int64(i.Shards), attrLimit: int64(i.Limit),
			attrRate: int64(i.Rate), attrBurst: int64(i.Burst)}
	}
	if old == (settingsRevision{}) {
		u.addCondition("attribute_not_exists(%s)", u.namePlaceholder(attrCluster))
	} else {
		u.requireUnchanged(attrEpoch, old.epoch)
		for name, n := range fields(old) {
			u.requireUnchanged(name, n)
		}
	}
	values := t.clusterItemAddress(itemSettings).primaryKey()
	if next.epoch > 0 {
		values[attrEpoch] = numberAttr(next.epoch)
	}
	for name, n := range fields(next) {
		values[name] = numberAttr(n)
	}
	_, err = t.items.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: values, ConditionExpression: aws.String(u.condition),
		ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values})
	_, failed := errors.AsType[*types.ConditionalCheckFailedException](err)
	if err != nil && !failed {
		return false, t.wrapError(table, err)
	}
	return err == nil, nil
}

// applyRevision applies a revision of the settings to all shards, and to the settings in the table of tickets (rights
// to dial). applyRevision returns errOvertaken when the revision is no longer the newest one.
func (t *Table) applyRevision(ctx context.Context, now settingsRevision) (changed bool, err error) {
	for shard := range now.Shards {
		did, err := t.applyShardLimit(ctx, now, shard)
		if err != nil {
			return changed, fmt.Errorf("shard %d: %w", shard, err)
		}
		changed = changed || did
	}
	did, err := t.applyRateSettings(ctx, now)
	if err != nil {
		return changed, err
	}
	return changed || did, t.checkNewest(ctx, now)
}

// checkNewest returns errOvertaken if now is no longer the newest revision of the settings in DynamoDB.
func (t *Table) checkNewest(ctx context.Context, now settingsRevision) error {
	found, err := t.newestRevision(ctx)
	if err == nil && found != now {
		err = errOvertaken
	}
	return err
}

// hasApplied reports whether a shard's item has the epoch and the limit of the revision now of the settings.
func (i itemAttrs) hasApplied(now settingsRevision, shard int) bool {
	return len(i) > 0 && i.number(attrLimit) == int64(now.shardLimit(shard)) && i.number(attrEpoch) == now.epoch
}

// applyShardLimit applies a revision to a shard, or creates the shard. It adds the difference between new and old
// limit to the free slots. If the free slots fall below 0, none is granted until enough slots have come back.
//
// Sidecars change free slots and records together, so their changes leave the difference right. The difference is
// applied once only, because the write requires the limit and the epoch from which it was calculated. applyShardLimit
// reads the newest revision after the shard, so that a later change of the shard makes the write fail.
func (t *Table) applyShardLimit(ctx context.Context, now settingsRevision, shard int) (changed bool, err error) {
	limit := int64(now.shardLimit(shard))
	for range raceTries {
		found, at, err := t.readShardItem(ctx, shard, true)
		if err != nil || found.hasApplied(now, shard) {
			return changed, err
		}
		if err := t.checkNewest(ctx, now); err != nil {
			return changed, err
		}
		u := itemUpdate{table: t.slots, at: at}
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
		} else { // the settings have no epoch: an absent attribute is not 0
			u.addRemoveClause(u.namePlaceholder(attrEpoch))
		}
		if _, done, _, err := t.updateItem(ctx, &u); err != nil {
			return changed, err
		} else if done {
			return true, nil
		}
		changed = true // perhaps an earlier sending of this write succeeded
	}
	return changed, errRaced
}

// applyRateSettings applies a revision to the settings in the DynamoDB table of tickets (rights to dial). It changes
// nothing if slots and tickets share a table.
func (t *Table) applyRateSettings(ctx context.Context, now settingsRevision) (changed bool, err error) {
	for range raceTries {
		found, _, err := t.readItem(ctx, t.rate, t.clusterItemAddress(itemSettings), true)
		if err != nil || found.revision() == now {
			return false, err
		}
		if err := t.checkNewest(ctx, now); err != nil {
			return false, err
		}
		if done, err := t.replaceSettings(ctx, t.rate, found.revision(), now); done || err != nil {
			return done, err
		}
	}
	return false, errRaced
}
