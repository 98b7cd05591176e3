package temporal

import "testing"

// fence has the database note each takeover of a shard, and of each task that is written
// the range_id of the owner that made it: the upper bits of its ID.
const fence = `
	CREATE SCHEMA fence;
	CREATE TABLE fence.takeovers (shard_id int, range_id bigint);
	CREATE TABLE fence.tasks (shard_id int, range_id bigint, kind text);
	CREATE FUNCTION fence.takeover() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN INSERT INTO fence.takeovers VALUES (NEW.shard_id, NEW.range_id); RETURN NULL; END $$;
	CREATE FUNCTION fence.task() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN INSERT INTO fence.tasks VALUES (NEW.shard_id, NEW.task_id >> 20, TG_TABLE_NAME); RETURN NULL; END $$;
	CREATE TRIGGER fence AFTER UPDATE ON shards FOR EACH ROW WHEN (NEW.range_id <> OLD.range_id) EXECUTE FUNCTION fence.takeover();
	CREATE TRIGGER fence AFTER INSERT ON transfer_tasks FOR EACH ROW EXECUTE FUNCTION fence.task();
	CREATE TRIGGER fence AFTER INSERT ON timer_tasks FOR EACH ROW EXECUTE FUNCTION fence.task();
	CREATE TRIGGER fence AFTER INSERT ON visibility_tasks FOR EACH ROW EXECUTE FUNCTION fence.task();
	CREATE TRIGGER fence AFTER INSERT ON history_immediate_tasks FOR EACH ROW EXECUTE FUNCTION fence.task();
	CREATE TRIGGER fence AFTER INSERT ON history_scheduled_tasks FOR EACH ROW EXECUTE FUNCTION fence.task()`

// staleTasks were committed behind the takeover of their owner's shard: the new owner
// has read past their IDs, and nobody ever finds them.
const staleTasks = `
	SELECT count(*) FROM fence.tasks t JOIN fence.takeovers o ON o.shard_id = t.shard_id AND o.range_id = t.range_id + 1
	WHERE pg_xact_commit_timestamp(t.xmin) > pg_xact_commit_timestamp(o.xmin)`

// verifyFence that no task is of an owner that had lost its shard, by the order in which
// the database committed.
func (d *deployment) verifyFence(t *testing.T) {
	t.Helper()
	stale := d.pg.SQL(t, "postgres", staleTasks)
	t.Logf("%s tasks of all kinds; shards were taken over %s times; %s tasks were committed behind the takeover of their shard",
		d.pg.SQL(t, "postgres", "SELECT count(*) FROM fence.tasks"), d.pg.SQL(t, "postgres", takeovers), stale)
	if stale != "0" {
		t.Errorf("%s tasks are of owners that had lost their shard", stale)
	}
	// The judge must know how a task's owner is told.
	if known := d.pg.SQL(t, "postgres", "SELECT count(*) > 0 FROM fence.tasks t JOIN fence.takeovers USING (shard_id, range_id)"); known != "t" {
		t.Error("no task tells of an owner that is known")
	}
}

const takeovers = "SELECT count(*) FROM fence.takeovers"
