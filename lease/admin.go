package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	// activeLimit bounds the wait for a new table, activePoll how often it is
	// asked for.
	activeLimit = 2 * time.Minute
	activePoll  = 500 * time.Millisecond
)

// Init makes the tables, billed on demand and with items that expire, where they
// are missing, and the cluster's settings and shards in them. Settings that are
// there already are brought to cfg's, while sidecars run: their slots stay
// theirs. The number of shards of a table does not change. It may be repeated
// after a failure. It returns what it did, in words.
func (t *Table) Init(ctx context.Context, cfg Config) (did []string, err error) {
	for _, table := range slices.Compact([]string{t.slots, t.rate}) {
		made, err := t.create(ctx, table)
		if err != nil {
			return did, fmt.Errorf("table %s: %w", table, err)
		}
		did = append(did, made...)
	}
	want := cfg.settings()
	old, _, err := t.Settings(ctx)
	if err != nil && !errors.Is(err, ErrNoSettings) {
		return did, err
	}
	if old.Shards > 0 && old.Shards != want.Shards {
		did = append(did, fmt.Sprintf("distributed.conn_shards: the table keeps the %d that it was made with, not %d", old.Shards, want.Shards))
		want.Shards = old.Shards
	}
	if old == want {
		return append(did, "the settings are as configured"), nil
	}
	// The shards first: nobody may work by settings that are not in place, and
	// what was done twice changes nothing.
	for shard := range want.Shards {
		if err := t.relimit(ctx, shard, want.shardLimit(shard)); err != nil {
			return did, fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	for _, table := range slices.Compact([]string{t.slots, t.rate}) {
		if err := t.putSettings(ctx, table, want); err != nil {
			return did, err
		}
	}
	return append(did, fmt.Sprintf("%d slots in %d shards, %d tickets per second, %d at once", want.Limit, want.Shards, want.Rate, want.Burst)), nil
}

// create makes a table unless it is there, and waits until it can be used.
func (t *Table) create(ctx context.Context, table string) (did []string, err error) {
	attribute := func(name string) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS}
	}
	_, err = t.api.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{attribute(attrCluster), attribute(attrItem)},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(attrCluster), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(attrItem), KeyType: types.KeyTypeRange},
		},
	})
	_, exists := errors.AsType[*types.ResourceInUseException](err)
	switch {
	case err == nil:
		did = append(did, "created table "+table+", billed on demand")
	case exists:
		did = append(did, "table "+table+" exists")
	default:
		return nil, err
	}
	if err := t.active(ctx, table); err != nil {
		return did, err
	}
	_, err = t.api.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{TableName: &table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrExpiry), Enabled: aws.Bool(true)}})
	if err != nil {
		if strings.Contains(err.Error(), "already enabled") { // DynamoDB has no code for it
			return did, nil
		}
		// It tidies up after clusters that are gone; nothing depends on it.
		return append(did, "expiry of items was not changed: "+err.Error()), nil
	}
	return append(did, "items expire by attribute "+attrExpiry), nil
}

// active waits until a table can be used.
func (t *Table) active(ctx context.Context, table string) error {
	ctx, cancel := context.WithTimeout(ctx, activeLimit)
	defer cancel()
	for {
		out, err := t.api.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
		if err != nil {
			return err
		}
		if out.Table.TableStatus == types.TableStatusActive {
			return nil
		}
		timer := time.NewTimer(activePoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("it is %s: %w", out.Table.TableStatus, ctx.Err())
		case <-timer.C:
		}
	}
}

// relimit gives a shard another limit, or makes it. The difference comes from
// what is free, which may fall below 0: then nothing is granted until enough
// came back.
func (t *Table) relimit(ctx context.Context, shard, limit int) error {
	found, _, err := t.read(ctx, t.slots, shardItem(shard), true)
	if err != nil {
		return err
	}
	u := update{table: t.slots, item: shardItem(shard)}
	old := found.number(attrLimit)
	switch {
	case len(found) == 0:
		u.require("attribute_not_exists(%s)", u.name(attrFree))
		u.set("%s = %s", u.name(attrFree), u.number(int64(limit)))
	case old == int64(limit):
		return nil
	default:
		u.require("%s = %s", u.name(attrLimit), u.number(old))
		u.set("%s = %s + %s", u.name(attrFree), u.name(attrFree), u.number(int64(limit)-old))
	}
	u.set("%s = %s", u.name(attrLimit), u.number(int64(limit)))
	_, done, _, err := t.write(ctx, &u)
	if err == nil && !done {
		err = errors.New("somebody else changes it at the same time: try again")
	}
	return err
}

// putSettings writes the settings. They do not expire.
func (t *Table) putSettings(ctx context.Context, table string, s Settings) error {
	values := t.key(itemSettings)
	for name, n := range map[string]int{attrFormat: s.Format, attrShards: s.Shards, attrLimit: s.Limit, attrRate: s.Rate, attrBurst: s.Burst} {
		values[name] = number(int64(n))
	}
	_, err := t.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: values})
	return err
}

// Status is what stands in the table.
type Status struct {
	Settings Settings
	Shards   []Shard
	// Queue is how far ahead tickets were given out, by DynamoDB's clock.
	Queue time.Duration
}

// Status reads all of a cluster's items.
func (t *Table) Status(ctx context.Context) (Status, error) {
	settings, at, err := t.Settings(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Status{Settings: settings}
	for shard := range settings.Shards {
		found, _, err := t.read(ctx, t.slots, shardItem(shard), true)
		if err != nil {
			return Status{}, err
		}
		one := found.shard()
		if len(found) == 0 { // expired unused; the first join makes it
			one.Limit = settings.shardLimit(shard)
			one.Free = one.Limit
		}
		s.Shards = append(s.Shards, one)
	}
	found, _, err := t.read(ctx, t.rate, itemTickets, true)
	if next := found.number(attrNext); next > 0 {
		s.Queue = time.Duration(next-time.Time(at).UnixMicro()) * time.Microsecond
	}
	return s, err
}

// A Repair is one thing that is wrong with a table, and what would be done.
type Repair struct {
	Text   string
	update update
}

// Repairs are what is wrong: shards whose numbers disagree, a ticket time that
// cannot be right, and the records of the owners given, which are known to be
// dead. An owner is named as Status shows it.
func (t *Table) Repairs(s Status, owners []string) []Repair {
	var repairs []Repair
	for shard, one := range s.Shards {
		for _, owner := range slices.Sorted(maps.Keys(one.Owners)) {
			if !slices.Contains(owners, owner) {
				continue
			}
			record, _ := ParseRecord(one.Owners[owner]) // one that cannot be read holds nothing
			u := update{table: t.slots, item: shardItem(shard)}
			u.require("%s = %s", u.name(ownerPrefix+owner), u.text(one.Owners[owner]))
			u.set("%s = %s + %s", u.name(attrFree), u.name(attrFree), u.number(int64(record.Slots)))
			u.remove(u.name(ownerPrefix + owner))
			repairs = append(repairs, Repair{fmt.Sprintf("shard %d: remove owner %s, which frees %d slots", shard, owner, record.Slots), u})
		}
		if d := one.Drift(); d != 0 {
			// Any change of a sidecar moves free and records together, so the
			// difference stays right whatever happens meanwhile. Twice it must not.
			u := update{table: t.slots, item: shardItem(shard)}
			u.require("%s = %s", u.name(attrFree), u.number(int64(one.Free)))
			u.set("%s = %s + %s", u.name(attrFree), u.name(attrFree), u.number(int64(d)))
			repairs = append(repairs, Repair{fmt.Sprintf("shard %d: free %d becomes %d, so that free and held make %d", shard, one.Free, one.Free+d, one.Limit), u})
		}
	}
	if s.Queue > poisoned {
		u := update{table: t.rate, item: itemTickets}
		u.require("attribute_exists(%s)", u.name(attrNext))
		u.set("%s = %s", u.name(attrNext), u.number(0))
		repairs = append(repairs, Repair{fmt.Sprintf("tickets: given out %v ahead, which cannot be; begin anew", s.Queue), u})
	}
	return repairs
}

// Repair does it. It changes nothing, and says so, when the item is no longer as
// it was seen.
func (t *Table) Repair(ctx context.Context, r Repair) error {
	_, done, _, err := t.write(ctx, &r.update)
	if err == nil && !done {
		err = errors.New("it has changed meanwhile: look again")
	}
	return err
}
