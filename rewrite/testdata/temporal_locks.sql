The statements of Temporal's PostgreSQL persistence (MIT licence) that lock.

-- in
SELECT data, data_encoding, version FROM cluster_metadata_info WHERE metadata_partition = $1 AND cluster_name = $2 FOR UPDATE
-- out
same
-- rules


-- in
SELECT db_record_version, next_event_id FROM executions 
 WHERE shard_id = $1 AND namespace_id = $2 AND workflow_id = $3 AND run_id = $4 FOR UPDATE
-- out
same
-- rules


-- in
SELECT db_record_version, next_event_id FROM executions 
 WHERE shard_id = $1 AND namespace_id = $2 AND workflow_id = $3 AND run_id = $4 FOR SHARE
-- out
SELECT db_record_version, next_event_id FROM executions 
 WHERE shard_id = $1 AND namespace_id = $2 AND workflow_id = $3 AND run_id = $4 FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT
ce.shard_id, ce.namespace_id, ce.workflow_id, ce.run_id, ce.create_request_id, ce.state, ce.status, ce.start_time, e.last_write_version, ce.data, ce.data_encoding
FROM current_executions ce
INNER JOIN executions e ON e.shard_id = ce.shard_id AND e.namespace_id = ce.namespace_id AND e.workflow_id = ce.workflow_id AND e.run_id = ce.run_id
WHERE ce.shard_id = $1 AND ce.namespace_id = $2 AND ce.workflow_id = $3 FOR UPDATE
-- out
same
-- rules


-- in
SELECT
ce.shard_id, ce.namespace_id, ce.business_id as workflow_id, ce.run_id, ce.create_request_id, ce.state, ce.status, ce.start_time, e.last_write_version, ce.data, ce.data_encoding
FROM current_chasm_executions ce
INNER JOIN executions e ON e.shard_id = ce.shard_id AND e.namespace_id = ce.namespace_id AND e.workflow_id = ce.business_id AND e.run_id = ce.run_id
WHERE ce.shard_id = $1 AND ce.namespace_id = $2 AND ce.business_id = $3 AND ce.archetype_id = $4 FOR UPDATE
-- out
same
-- rules


-- in
SELECT
shard_id, namespace_id, workflow_id, run_id, create_request_id, state, status, start_time, last_write_version, data, data_encoding
FROM current_executions WHERE shard_id = $1 AND namespace_id = $2 AND workflow_id = $3 FOR UPDATE
-- out
same
-- rules


-- in
SELECT
shard_id, namespace_id, business_id as workflow_id, run_id, create_request_id, state, status, start_time, last_write_version, data, data_encoding
FROM current_chasm_executions WHERE shard_id = $1 AND namespace_id = $2 AND business_id = $3 AND archetype_id = $4 FOR UPDATE
-- out
same
-- rules


-- in
SELECT notification_version FROM namespace_metadata WHERE partition_id=$1 FOR UPDATE
-- out
same
-- rules


-- in
SELECT message_id FROM queue WHERE message_id >= (SELECT message_id FROM queue WHERE queue_type=$1 ORDER BY message_id DESC LIMIT 1) FOR UPDATE
-- out
same
-- rules


-- in
SELECT data, data_encoding, version from queue_metadata WHERE queue_type = $1 FOR UPDATE
-- out
same
-- rules


-- in
SELECT message_id FROM queue_messages WHERE queue_type=$1 and queue_name=$2 and queue_partition=$3 and message_id >= (SELECT message_id FROM queue_messages WHERE queue_type=$1 and queue_name=$2 and queue_partition=$3 ORDER BY message_id DESC LIMIT 1) FOR UPDATE
-- out
same
-- rules


-- in
SELECT metadata_payload, metadata_encoding from queues WHERE queue_type=$1 and queue_name=$2 FOR UPDATE
-- out
same
-- rules


-- in
SELECT range_id FROM shards WHERE shard_id = $1 FOR UPDATE
-- out
same
-- rules


-- in
SELECT range_id FROM shards WHERE shard_id = $1 FOR SHARE
-- out
SELECT range_id FROM shards WHERE shard_id = $1 FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT range_id FROM task_queues_v2 WHERE range_hash=$1 AND task_queue_id=$2 FOR UPDATE
-- out
same
-- rules


