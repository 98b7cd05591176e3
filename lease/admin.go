package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	// activeLimit bounds the wait for a new DynamoDB table. activePoll is the interval between two calls of DescribeTable
	// in that wait.
	activeLimit = 2 * time.Minute
	activePoll  = 500 * time.Millisecond
)

// Init creates missing DynamoDB tables, and in them the cluster's settings and shards (items with slots). Tables are
// billed on demand, and DynamoDB removes expired items. Init replaces existing settings by those of cfg while
// sidecars run; the sidecars keep their slots. Init does not change the number of shards of an existing table. Init
// also finishes an earlier Init that was interrupted. Init returns a list of its changes, in words.
func (t *Table) Init(ctx context.Context, cfg Config) (did []string, err error) {
	// Init checks the rate of dials even if cfg does not share it, because sidecars read the rate from DynamoDB.
	if err := cfg.validateBurst(); err != nil {
		return nil, err
	}
	t = t.withRetries()
	for _, table := range slices.Compact([]string{t.slots, t.rate}) {
		made, err := t.createTable(ctx, table)
		if err != nil {
			return did, fmt.Errorf("table %s: %w", table, err)
		}
		did = append(did, made...)
	}
	agreed, err := t.applyInit(ctx, cfg)
	return append(did, agreed...), err
}

// applyInit writes the settings of cfg to the DynamoDB tables, which exist already, and applies them to the shards.
func (t *Table) applyInit(ctx context.Context, cfg Config) (did []string, err error) {
	if err := t.resolveClusterName(ctx); err != nil {
		return nil, err
	}
	var now settingsRevision
	for tries := 0; ; tries++ {
		old, err := t.newestKnownRevision(ctx)
		if err != nil {
			return did, err
		}
		want := cfg.tableSettings()
		if old.Shards > 0 {
			want.Shards, want.Format = old.Shards, old.Format
		} else if want.Format, err = t.prepareCluster(ctx, want.Shards); err != nil {
			return did, err
		}
		if now = old; old.Settings == want {
			break
		}
		var done bool
		if now, done, err = t.declareRevision(ctx, old, want); err != nil || done {
			if err != nil {
				return did, err
			}
			break
		}
		if tries == raceTries {
			return did, errOvertaken
		}
	}
	if now.Shards != cfg.Shards {
		did = append(did, fmt.Sprintf("distributed.conn_shards: the table keeps the %d that it was made with, not %d", now.Shards, cfg.Shards))
	}
	if now.Format < Format {
		did = append(did, "the table keeps format 1, with all items under one partition key: see sluice lease migrate")
	}
	changed, err := t.applyRevision(ctx, now)
	if err != nil {
		return did, fmt.Errorf("%w; sluice lease init or reset finishes it", err)
	}
	if !changed {
		return append(did, "the settings are as configured"), nil
	}
	return append(did, fmt.Sprintf("%d slots in %d shards, %d tickets per second, %d at once", now.Limit, now.Shards, now.Rate, now.Burst)), nil
}

// createTable creates a DynamoDB table that does not exist yet, and waits until the table is active.
func (t *Table) createTable(ctx context.Context, table string) (did []string, err error) {
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
	if err := t.waitUntilActive(ctx, table); err != nil {
		return did, err
	}
	_, err = t.api.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{TableName: &table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrExpiry), Enabled: aws.Bool(true)}})
	if err != nil {
		if strings.Contains(err.Error(), "already enabled") { // DynamoDB has no error code for this
			return did, nil
		}
		// If expiry cannot be set, Init does not fail, because expiry only removes items of clusters that no longer exist.
		return append(did, "expiry of items was not changed: "+err.Error()), nil
	}
	return append(did, "items expire by attribute "+attrExpiry), nil
}

// waitUntilActive waits until DynamoDB reports a table as active.
func (t *Table) waitUntilActive(ctx context.Context, table string) error {
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
