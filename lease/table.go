package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-proxy/sluice/metrics"
)

// These are names of keys, items and attributes in the DynamoDB table. Each cluster has its settings, the time of its
// next ticket (right to dial once), and its shards. The settings and that time are under the cluster's partition key.
// The keys of shards are in keys.go.
const (
	attrCluster = "pk"
	attrItem    = "sk"
	attrExpiry  = "ttl"

	itemSettings = "CFG"
	itemTickets  = "RATE"

	attrFormat, attrShards, attrLimit = "format", "shards", "lim"
	attrRate, attrBurst               = "rate", "burst"
	attrFree, attrNext                = "free", "tat"
	// attrEpoch is a count of the changes of the settings. The settings have the newest epoch, and each shard has the
	// epoch that it has followed. attrRepair is a unique name for each repair of a shard. No owner's attribute begins with
	// either name.
	attrEpoch, attrRepair = "epoch", "fix"
	ownerPrefix           = "o"
)

// expiry is the time after which DynamoDB may remove an item that is not written. Items in use are written every few
// seconds. The time is that of DynamoDB's clock.
const expiry = 30 * 24 * time.Hour

const (
	connectTimeout = time.Second
	idleConns      = 4
	// adminAttempts bounds the attempts of an administrator's call of DynamoDB. The pause between attempts doubles from
	// adminPause to maxAdminPause.
	adminAttempts = 12
	adminPause    = 100 * time.Millisecond
	maxAdminPause = 4 * time.Second
)

// Table is a Store in DynamoDB. Table sends each call once, because the ledger resolves a call without an answer, and a
// hidden retry could deceive the ledger.
type Table struct {
	api, retryingAPI *dynamodb.Client // retryingAPI retries, for administration
	items            itemAPI          // api or retryingAPI
	slots, rate      string           // names of tables
	cluster          string           // partition key of the ledger
	earlier          string           // the key that older versions used, "" once that is settled
	transport        *http.Transport
	server           *serverTime
	places           *shardLocations
}

// itemAPI is the part of DynamoDB's API that reads and changes items.
type itemAPI interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
}

// serverTime is the last known time of DynamoDB's clock.
type serverTime struct {
	now   atomic.Int64 // in the last answer, in seconds
	known atomic.Int64 // the machine's clock at that answer
}

// NewTable returns the Store for the tables that cfg names, with the given AWS configuration. NewTable does not connect
// yet.
func NewTable(cfg Config, chain aws.Config) *Table {
	base, ok := chain.HTTPClient.(*awshttp.BuildableClient) // it trusts the authorities of AWS_CA_BUNDLE, if set
	if !ok {
		base = awshttp.NewBuildableClient()
	}
	transport := base.WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectTimeout }).GetTransport()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = idleConns, idleConns
	t := &Table{slots: cfg.Table, rate: cfg.RateTable, cluster: "L#" + cfg.Cluster, transport: transport, server: new(serverTime), places: new(shardLocations)}
	if cfg.Earlier != "" {
		t.earlier = "L#" + cfg.Earlier
	}
	if t.slots == "" {
		t.slots = t.rate
	}
	if t.rate == "" {
		t.rate = t.slots
	}
	if provider := chain.Credentials; provider != nil {
		chain.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			credentials, err := provider.Retrieve(ctx)
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("%w: %w", errCredentials, err)
			}
			return credentials, err
		})
	}
	client := func(retryer aws.Retryer) *dynamodb.Client {
		return dynamodb.NewFromConfig(chain, func(o *dynamodb.Options) {
			o.Retryer = retryer
			o.HTTPClient = &http.Client{Transport: transport, Timeout: maxCallTimeout, CheckRedirect: noRedirect}
		})
	}
	t.api, t.retryingAPI = client(aws.NopRetryer{}), client(retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.RateLimiter = adminAttempts, ratelimit.None
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			pause := adminPause << min(attempt, 10)
			return min(pause, maxAdminPause)/2 + rand.N(min(pause, maxAdminPause)/2), nil
		})
	}))
	t.items = t.api
	return t
}

// forAdmin returns a copy of the Table for administration, which repeats throttled or failed calls for some 20
// seconds. So it may send a write twice. forAdmin returns an error if the cluster has two ledgers.
func (t *Table) forAdmin(ctx context.Context) (*Table, error) {
	patient := t.withRetries()
	return patient, patient.resolveClusterName(ctx)
}

func (t *Table) withRetries() *Table {
	patient := *t
	if t.items == itemAPI(t.api) {
		patient.items = t.retryingAPI
	}
	patient.api = t.retryingAPI
	return &patient
}

// noRedirect makes the HTTP client return a redirect as the answer, which is an error, because requests are signed for
// one endpoint.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes the idle connections to DynamoDB.
func (t *Table) Close() { t.transport.CloseIdleConnections() }

func numberAttr(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func textAttr(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// itemAttrs holds the attributes of an item in DynamoDB.
type itemAttrs map[string]types.AttributeValue

// number returns an attribute of the item as an integer, or 0 if the attribute is missing or no integer.
func (i itemAttrs) number(name string) int64 {
	if a, ok := i[name].(*types.AttributeValueMemberN); ok {
		n, _ := strconv.ParseInt(a.Value, 10, 64)
		return n
	}
	return 0
}

// text returns an attribute of the item as text, or "" if the attribute is missing or no text.
func (i itemAttrs) text(name string) string {
	if a, ok := i[name].(*types.AttributeValueMemberS); ok {
		return a.Value
	}
	return ""
}

// settings returns a cluster's settings from i, the item that holds them.
func (i itemAttrs) settings() Settings {
	return Settings{
		Format: int(i.number(attrFormat)), Shards: int(i.number(attrShards)), Limit: int(i.number(attrLimit)),
		Rate: int(i.number(attrRate)), Burst: int(i.number(attrBurst)),
	}
}

// shard returns the Shard that the item i holds.
func (i itemAttrs) shard() Shard {
	s := Shard{Limit: int(i.number(attrLimit)), Free: int(i.number(attrFree)), Owners: make(map[string]string)}
	for name, value := range i {
		owner, isOwner := strings.CutPrefix(name, ownerPrefix)
		if record, ok := value.(*types.AttributeValueMemberS); ok && isOwner {
			s.Owners[owner] = record.Value
		}
	}
	return s
}

// Settings implements Store: it reads the cluster's settings. It reads the connection rate and the burst from the
// table of tickets (rights to dial once), if slots are in another table.
func (t *Table) Settings(ctx context.Context) (Settings, TableTime, error) {
	if err := t.resolveClusterName(ctx); err != nil {
		return Settings{}, TableTime{}, err
	}
	slots, at, err := t.readSettings(ctx, t.slots)
	if err == nil {
		t.recordFormat(ctx, slots.Format)
	}
	if err != nil || t.rate == t.slots {
		return slots, at, err
	}
	rate, at, err := t.readSettings(ctx, t.rate)
	slots.Rate, slots.Burst = rate.Rate, rate.Burst
	return slots, at, err
}

func (t *Table) readSettings(ctx context.Context, table string) (Settings, TableTime, error) {
	found, at, err := t.readItem(ctx, table, t.clusterItemAddress(itemSettings), true)
	if err == nil && len(found) == 0 {
		err = t.noSettingsError(table)
	}
	return found.settings(), at, err
}

// noSettingsError returns ErrNoSettings with the key under which no settings were found. sluice lease init for
// another endpoint or port would create items under another key.
func (t *Table) noSettingsError(table string) error {
	return &TableError{Cause: metrics.CauseNotInitialised, Table: table, Region: t.api.Options().Region,
		Err: fmt.Errorf("no settings under the key %s: %w", t.clusterItemAddress(itemSettings).partition, ErrNoSettings)}
}

// Reserve implements Store: it reserves tickets, rights to dial once. If unused tickets have accumulated, Reserve
// needs a second write.
func (t *Table) Reserve(ctx context.Context, r Reservation) (int64, bool, TableTime, error) {
	u := itemUpdate{table: t.rate, at: t.clusterItemAddress(itemTickets)}
	tickets := int64(r.Tickets) * r.Interval
	if r.Wrong != 0 {
		u.addCondition("%s = %s", u.namePlaceholder(attrNext), u.numberPlaceholder(r.Wrong))
		u.addSetClause("%s = %s", u.namePlaceholder(attrNext), u.numberPlaceholder(r.Floor+tickets))
		return t.writeReservation(ctx, &u)
	}
	u.addCondition("%s BETWEEN %s AND %s", u.namePlaceholder(attrNext), u.numberPlaceholder(r.Floor), u.numberPlaceholder(r.Ceiling))
	u.addSetClause("%s = %s + %s", u.namePlaceholder(attrNext), u.namePlaceholder(attrNext), u.numberPlaceholder(tickets))
	next, done, at, err := t.writeReservation(ctx, &u)
	if err != nil || done || next >= r.Floor {
		return next, done, at, err
	}
	idle := itemUpdate{table: t.rate, at: t.clusterItemAddress(itemTickets)}
	idle.addCondition("attribute_not_exists(%s) OR %s < %s", idle.namePlaceholder(attrNext), idle.namePlaceholder(attrNext), idle.numberPlaceholder(r.Floor))
	idle.addSetClause("%s = %s", idle.namePlaceholder(attrNext), idle.numberPlaceholder(r.Floor+tickets))
	return t.writeReservation(ctx, &idle)
}

func (t *Table) writeReservation(ctx context.Context, u *itemUpdate) (int64, bool, TableTime, error) {
	found, done, at, err := t.updateItem(ctx, u)
	return found.number(attrNext), done, at, err
}

// readItem returns an item of a DynamoDB table, or nil if it is missing.
func (t *Table) readItem(ctx context.Context, table string, from itemAddress, consistent bool) (itemAttrs, TableTime, error) {
	out, err := t.items.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: from.primaryKey(), ConsistentRead: &consistent})
	if err != nil {
		return nil, TableTime{}, t.wrapError(table, err)
	}
	at, _ := middleware.GetServerTime(out.ResultMetadata)
	t.recordServerTime(at)
	return out.Item, TableTime(at), nil
}

// updateItem makes a conditional update of an item. It returns the item after the update, or as it was found when the
// condition was not met.
func (t *Table) updateItem(ctx context.Context, u *itemUpdate) (itemAttrs, bool, TableTime, error) {
	if now := t.serverSeconds(); u.forever {
		u.addRemoveClause(u.namePlaceholder(attrExpiry))
	} else if now > 0 {
		u.addSetClause("%s = %s", u.namePlaceholder(attrExpiry), u.numberPlaceholder(now+int64(expiry/time.Second)))
	}
	out, err := t.items.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &u.table, Key: u.at.primaryKey(),
		UpdateExpression: aws.String(u.updateExpression()), ConditionExpression: &u.condition,
		ExpressionAttributeNames: u.names, ExpressionAttributeValues: u.values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err == nil {
		at, _ := middleware.GetServerTime(out.ResultMetadata)
		t.recordServerTime(at)
		return out.Attributes, true, TableTime(at), nil
	}
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return nil, false, TableTime{}, t.wrapError(u.table, err)
	}
	if failed.Item != nil {
		return failed.Item, false, TableTime{}, nil
	}
	// The answer has no item, because the item is missing or this server does not return items.
	found, at, err := t.readItem(ctx, u.table, u.at, true)
	return found, false, at, err
}

// wrapError returns a *TableError with the cause of a failed call of DynamoDB.
func (t *Table) wrapError(table string, err error) error {
	return tableError(table, t.api.Options().Region, err)
}

// recordServerTime records the time of DynamoDB's clock in an answer.
func (t *Table) recordServerTime(at time.Time) {
	if !at.IsZero() {
		t.server.now.Store(at.Unix())
		t.server.known.Store(int64(MachineClock()))
	}
}

// serverSeconds returns DynamoDB's time in seconds, or 0 before DynamoDB's first answer.
func (t *Table) serverSeconds() int64 {
	now := t.server.now.Load()
	if now == 0 {
		return 0
	}
	return now + int64((MachineClock()-time.Duration(t.server.known.Load()))/time.Second)
}
