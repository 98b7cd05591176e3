package lease

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Status is what the DynamoDB table holds for one cluster.
type Status struct {
	Settings Settings
	Shards   []Shard
	// Queue is how far ahead of now tickets (rights to dial once) are reserved, by DynamoDB's clock.
	Queue time.Duration

	intent     settingsRevision
	rateIntent settingsRevision // the revision in the table of tickets
	moved      int              // shards that are under their own keys
	next       int64            // time of the next ticket
}

// Status reads all items of a cluster from the DynamoDB table.
func (t *Table) Status(ctx context.Context) (Status, error) {
	t, err := t.forAdmin(ctx)
	if err != nil {
		return Status{}, err
	}
	settings, at, err := t.Settings(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Status{Settings: settings}
	if s.intent, err = t.newestKnownRevision(ctx); err != nil {
		return Status{}, err
	}
	if settings.Shards < 1 || settings.Shards > maxShards {
		return Status{}, fmt.Errorf("lease: the settings in the table name %d shards, which cannot be", settings.Shards)
	}
	for shard := range settings.Shards {
		found, moved, err := t.peekShardItem(ctx, shard)
		if err != nil {
			return Status{}, err
		}
		if moved {
			s.moved++
		}
		one := found.shard()
		if len(found) == 0 { // the item expired unused; the first join creates it
			one.Limit = settings.shardLimit(shard)
			one.Free = one.Limit
		}
		s.Shards = append(s.Shards, one)
	}
	rateIntent, _, err := t.readItem(ctx, t.rate, t.clusterItemAddress(itemSettings), true)
	if err != nil {
		return Status{}, err
	}
	s.rateIntent = rateIntent.revision()
	found, _, err := t.readItem(ctx, t.rate, t.clusterItemAddress(itemTickets), true)
	if s.next = found.number(attrNext); s.next > 0 {
		s.Queue = time.Duration(s.next-time.Time(at).UnixMicro()) * time.Microsecond
	}
	return s, err
}

// isHalfMigrated reports whether some shards are moved to the keys of format 2 while the settings still have format 1.
func (s Status) isHalfMigrated() bool { return s.Settings.Format < Format && s.moved > 0 }

// Problems returns the errors found in the DynamoDB table, one line each. Examples are limits that differ from the
// settings after an interrupted Init, and shards whose numbers disagree.
func (s Status) Problems() []string {
	var problems []string
	sum := 0
	if s.isHalfMigrated() {
		problems = append(problems, fmt.Sprintf("the settings are of format 1, and %d of %d shards are moved to the keys of format 2: a migration was not finished, or an older version has written the settings", s.moved, len(s.Shards)))
	}
	for shard, one := range s.Shards {
		sum += one.Limit
		if want := s.Settings.shardLimit(shard); one.Limit != want {
			problems = append(problems, fmt.Sprintf("shard %d has a limit of %d slots, by the settings it is %d: a change of the limit was not finished", shard, one.Limit, want))
		}
		if d := one.Drift(); d != 0 {
			problems = append(problems, fmt.Sprintf("shard %d has %d of %d slots free and %d held, which is wrong by %d", shard, one.Free, one.Limit, one.HeldSlots(), d))
		}
	}
	if sum != s.Settings.Limit {
		problems = append(problems, fmt.Sprintf("the shards together have %d slots, the settings %d", sum, s.Settings.Limit))
	}
	if s.rateIntent.Settings != s.intent.Settings {
		problems = append(problems, fmt.Sprintf("the table of the tickets has %d per second, %d at once, the settings are %d and %d: a change of them was not finished",
			s.rateIntent.Rate, s.rateIntent.Burst, s.intent.Rate, s.intent.Burst))
	}
	return problems
}

// UnchangedOwners returns the owners whose records are the same in both Statuses. An unchanged record does not prove
// its owner dead, because some owners renew rarely or cannot renew.
func (s Status) UnchangedOwners(before Status) (owners []string) {
	for shard, one := range s.Shards {
		if shard >= len(before.Shards) {
			break
		}
		for owner, text := range one.Owners {
			if before.Shards[shard].Owners[owner] == text {
				owners = append(owners, owner)
			}
		}
	}
	slices.Sort(owners)
	return owners
}

// A Repair describes one error in the DynamoDB table by Text, and has the write that corrects the error.
type Repair struct {
	Text string
	do   func(context.Context, *Table) error
}

// Repairs returns the corrections of the table. Corrections concern limits of shards and rates that lag behind the
// settings, shards whose numbers disagree, and an impossible time of the next ticket (right to dial once). Corrections
// also finish a half-done migration, and remove the records of the given owners, which the caller knows to be dead. An
// owner has the name that Status shows.
func (t *Table) Repairs(s Status, owners []string) []Repair {
	var repairs []Repair
	for shard, one := range s.Shards {
		if want := s.Settings.shardLimit(shard); one.Limit != want {
			repairs = append(repairs, Repair{fmt.Sprintf("shard %d: its limit of %d slots becomes %d, as the settings have it", shard, one.Limit, want),
				func(ctx context.Context, t *Table) error {
					_, err := t.applyShardLimit(ctx, s.intent, shard)
					return err
				}})
		}
		for _, owner := range slices.Sorted(maps.Keys(one.Owners)) {
			if slices.Contains(owners, owner) {
				repairs = append(repairs, removalRepair(shard, owner, one.Owners[owner]))
			}
		}
		if d := one.Drift(); d != 0 {
			text := fmt.Sprintf("shard %d: free %d becomes %d, so that free and held make %d", shard, one.Free, one.Free+d, one.Limit)
			repairs = append(repairs, Repair{text, func(ctx context.Context, t *Table) error {
				return t.repairDrift(ctx, shard, d)
			}})
		}
	}
	if s.rateIntent.Settings != s.intent.Settings {
		repairs = append(repairs, Repair{"the table of the tickets gets the settings", func(ctx context.Context, t *Table) error {
			_, err := t.applyRateSettings(ctx, s.intent)
			return err
		}})
	}
	if s.Queue > impossibleQueue {
		repairs = append(repairs, Repair{fmt.Sprintf("tickets: given out %v ahead, which cannot be; begin anew", s.Queue),
			func(ctx context.Context, t *Table) error { return t.resetTickets(ctx, s.next) }})
	}
	if s.isHalfMigrated() { // the last one, because it makes a new revision
		repairs = append(repairs, Repair{"the migration to format 2 is finished", func(ctx context.Context, t *Table) error {
			_, err := t.migrate(ctx, true)
			return err
		}})
	}
	return repairs
}

// Repair performs the correction r. If the item has changed since Status, it changes nothing and returns an error.
func (t *Table) Repair(ctx context.Context, r Repair) error {
	patient, err := t.forAdmin(ctx)
	if err != nil {
		return err
	}
	return r.do(ctx, patient)
}

// namedRecords is the greatest number of records that one condition names. DynamoDB allows 300 operators in a
// condition.
const namedRecords = 100

var errChanged = errors.New("it has changed meanwhile: look again")

// removalRepair returns the Repair that removes a record and frees its slots. The text of a record never occurs twice,
// so the condition on the text is met at most once.
func removalRepair(shard int, owner, text string) Repair {
	record, _ := ParseRecord(text) // an unreadable record holds nothing
	return Repair{fmt.Sprintf("shard %d: remove owner %s, which frees %d slots", shard, owner, record.Slots),
		func(ctx context.Context, t *Table) error {
			_, at, err := t.readShardItem(ctx, shard, true)
			if err != nil {
				return err
			}
			u := itemUpdate{table: t.slots, at: at}
			u.addCondition("attribute_not_exists(%s)", u.namePlaceholder(attrClosed))
			u.addCondition("%s = %s", u.namePlaceholder(ownerPrefix+owner), u.textPlaceholder(text))
			u.addSetClause("%s = %s + %s", u.namePlaceholder(attrFree), u.namePlaceholder(attrFree), u.numberPlaceholder(int64(record.Slots)))
			u.addRemoveClause(u.namePlaceholder(ownerPrefix + owner))
			after, done, _, err := t.updateItem(ctx, &u)
			if _, there := after[ownerPrefix+owner]; err == nil && !done && there {
				err = errChanged
			}
			return err
		}}
}

// repairDrift adds drift to a shard's free slots, if its numbers still disagree by drift.
//
// A change by a sidecar or of the limit moves two of the numbers together and leaves the drift as it is. Only
// another repair could make drift wrong, even if the number of free slots is the same again. So each repair writes a
// unique name, which the next one requires. Older versions write no name, so the records must be unchanged too.
func (t *Table) repairDrift(ctx context.Context, shard, drift int) error {
	name := crand.Text()
	for range raceTries {
		found, at, err := t.readShardItem(ctx, shard, true)
		seen := found.shard()
		switch {
		case err != nil:
			return err
		case found.text(attrRepair) == name: // an earlier sending has arrived
			return nil
		case seen.Drift() != drift:
			return errChanged
		}
		u := itemUpdate{table: t.slots, at: at}
		u.addCondition("%s = %s AND %s = %s", u.namePlaceholder(attrFree), u.numberPlaceholder(int64(seen.Free)), u.namePlaceholder(attrLimit), u.numberPlaceholder(int64(seen.Limit)))
		if last := found.text(attrRepair); last != "" {
			u.addCondition("%s = %s", u.namePlaceholder(attrRepair), u.textPlaceholder(last))
		} else {
			u.addCondition("attribute_not_exists(%s)", u.namePlaceholder(attrRepair))
		}
		if len(seen.Owners) <= namedRecords {
			for owner, record := range seen.Owners {
				u.addCondition("%s = %s", u.namePlaceholder(ownerPrefix+owner), u.textPlaceholder(record))
			}
		}
		u.addSetClause("%s = %s", u.namePlaceholder(attrFree), u.numberPlaceholder(int64(seen.Free+drift)))
		u.addSetClause("%s = %s", u.namePlaceholder(attrRepair), u.textPlaceholder(name))
		if _, done, _, err := t.updateItem(ctx, &u); err != nil || done {
			return err
		}
	}
	return errRaced
}

// resetTickets makes the tickets, rights to dial once, start again from now. resetTickets returns an error if the time
// of the next ticket has changed since next was read.
func (t *Table) resetTickets(ctx context.Context, next int64) error {
	u := itemUpdate{table: t.rate, at: t.clusterItemAddress(itemTickets)}
	u.addCondition("%s = %s", u.namePlaceholder(attrNext), u.numberPlaceholder(next))
	u.addSetClause("%s = %s", u.namePlaceholder(attrNext), u.numberPlaceholder(0))
	after, done, _, err := t.updateItem(ctx, &u)
	if err == nil && !done && after.number(attrNext) != 0 {
		err = errChanged
	}
	return err
}
