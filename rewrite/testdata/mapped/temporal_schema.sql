The statements of Temporal's PostgreSQL schema (MIT licence), where bytea keys are mapped.

-- in
CREATE TABLE IF NOT EXISTS schema_version(version_partition INT not null, db_name VARCHAR(255) not null, creation_time TIMESTAMP, curr_version VARCHAR(64), min_compatible_version VARCHAR(64), PRIMARY KEY (version_partition, db_name));
-- out
same
-- rules


-- in
CREATE TABLE IF NOT EXISTS schema_update_history(version_partition INT not null, year int not null, month int not null, update_time TIMESTAMP not null, description VARCHAR(255), manifest_md5 VARCHAR(64), new_version VARCHAR(64), old_version VARCHAR(64), PRIMARY KEY (version_partition, year, month, update_time));
-- out
same
-- rules


-- in
CREATE DATABASE "temporal"
-- out
same
-- rules
database create_database answered info
refusal 42P04: Every database name means the cluster's one database.

-- in
DROP DATABASE IF EXISTS temporal
-- out
SELECT 1
-- rules
database drop_database answered warning
tag DROP DATABASE

-- in
DROP TABLE temporal
-- out
same
-- rules


-- in
CREATE TABLE namespaces( partition_id INTEGER NOT NULL, id BYTEA NOT NULL, name VARCHAR(255) UNIQUE NOT NULL, notification_version BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, is_global BOOLEAN NOT NULL, PRIMARY KEY(partition_id, id) )
-- out
CREATE TABLE namespaces( partition_id INTEGER NOT NULL, id__byteahex text NOT NULL CONSTRAINT id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(id__byteahex, 'hex'), 'hex') = id__byteahex), name VARCHAR(255) UNIQUE NOT NULL, notification_version BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, is_global BOOLEAN NOT NULL, PRIMARY KEY(partition_id, id__byteahex) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE namespace_metadata ( partition_id INTEGER NOT NULL, notification_version BIGINT NOT NULL, PRIMARY KEY(partition_id) )
-- out
same
-- rules


-- in
INSERT INTO namespace_metadata (partition_id, notification_version) VALUES (54321, 1)
-- out
same
-- rules


-- in
CREATE TABLE shards ( shard_id INTEGER NOT NULL, range_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id) )
-- out
same
-- rules


-- in
CREATE TABLE executions( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, next_event_id BIGINT NOT NULL, last_write_version BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, state BYTEA NOT NULL, state_encoding VARCHAR(16) NOT NULL, db_record_version BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id) )
-- out
CREATE TABLE executions( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id__byteahex text NOT NULL CONSTRAINT run_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(run_id__byteahex, 'hex'), 'hex') = run_id__byteahex), next_event_id BIGINT NOT NULL, last_write_version BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, state BYTEA NOT NULL, state_encoding VARCHAR(16) NOT NULL, db_record_version BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id, run_id__byteahex) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE current_executions( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, create_request_id VARCHAR(255) NOT NULL, state INTEGER NOT NULL, status INTEGER NOT NULL, start_version BIGINT NOT NULL DEFAULT 0, start_time TIMESTAMP NULL, last_write_version BIGINT NOT NULL, data BYTEA NULL, data_encoding VARCHAR(16) NOT NULL DEFAULT '', PRIMARY KEY (shard_id, namespace_id, workflow_id) )
-- out
CREATE TABLE current_executions( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, create_request_id VARCHAR(255) NOT NULL, state INTEGER NOT NULL, status INTEGER NOT NULL, start_version BIGINT NOT NULL DEFAULT 0, start_time TIMESTAMP NULL, last_write_version BIGINT NOT NULL, data BYTEA NULL, data_encoding VARCHAR(16) NOT NULL DEFAULT '', PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE current_chasm_executions( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, business_id VARCHAR(255) NOT NULL, archetype_id BIGINT NOT NULL, run_id BYTEA NOT NULL, create_request_id VARCHAR(255) NOT NULL, state INTEGER NOT NULL, status INTEGER NOT NULL, start_version BIGINT NOT NULL DEFAULT 0, start_time TIMESTAMP NULL, last_write_version BIGINT NOT NULL, data BYTEA NULL, data_encoding VARCHAR(16) NOT NULL DEFAULT '', PRIMARY KEY (shard_id, namespace_id, business_id, archetype_id) )
-- out
CREATE TABLE current_chasm_executions( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), business_id VARCHAR(255) NOT NULL, archetype_id BIGINT NOT NULL, run_id BYTEA NOT NULL, create_request_id VARCHAR(255) NOT NULL, state INTEGER NOT NULL, status INTEGER NOT NULL, start_version BIGINT NOT NULL DEFAULT 0, start_time TIMESTAMP NULL, last_write_version BIGINT NOT NULL, data BYTEA NULL, data_encoding VARCHAR(16) NOT NULL DEFAULT '', PRIMARY KEY (shard_id, namespace_id__byteahex, business_id, archetype_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE buffered_events ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, id BIGSERIAL NOT NULL UNIQUE, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, id) )
-- out
CREATE TABLE buffered_events ( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id__byteahex text NOT NULL CONSTRAINT run_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(run_id__byteahex, 'hex'), 'hex') = run_id__byteahex), id bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1) NOT NULL UNIQUE, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id, run_id__byteahex, id) )
-- rules
bytea bytea_key rewritten info
serial serial rewritten info

-- in
CREATE TABLE tasks ( range_hash BIGINT NOT NULL, task_queue_id BYTEA NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (range_hash, task_queue_id, task_id) )
-- out
CREATE TABLE tasks ( range_hash BIGINT NOT NULL, task_queue_id__byteahex text NOT NULL CONSTRAINT task_queue_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(task_queue_id__byteahex, 'hex'), 'hex') = task_queue_id__byteahex), task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (range_hash, task_queue_id__byteahex, task_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE task_queues ( range_hash BIGINT NOT NULL, task_queue_id BYTEA NOT NULL, range_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (range_hash, task_queue_id) )
-- out
CREATE TABLE task_queues ( range_hash BIGINT NOT NULL, task_queue_id__byteahex text NOT NULL CONSTRAINT task_queue_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(task_queue_id__byteahex, 'hex'), 'hex') = task_queue_id__byteahex), range_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (range_hash, task_queue_id__byteahex) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE tasks_v2 ( range_hash BIGINT NOT NULL, task_queue_id BYTEA NOT NULL, pass BIGINT NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (range_hash, task_queue_id, pass, task_id) )
-- out
CREATE TABLE tasks_v2 ( range_hash BIGINT NOT NULL, task_queue_id__byteahex text NOT NULL CONSTRAINT task_queue_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(task_queue_id__byteahex, 'hex'), 'hex') = task_queue_id__byteahex), pass BIGINT NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (range_hash, task_queue_id__byteahex, pass, task_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE task_queues_v2 ( range_hash BIGINT NOT NULL, task_queue_id BYTEA NOT NULL, range_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (range_hash, task_queue_id) )
-- out
CREATE TABLE task_queues_v2 ( range_hash BIGINT NOT NULL, task_queue_id__byteahex text NOT NULL CONSTRAINT task_queue_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(task_queue_id__byteahex, 'hex'), 'hex') = task_queue_id__byteahex), range_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (range_hash, task_queue_id__byteahex) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE task_queue_user_data ( namespace_id BYTEA NOT NULL, task_queue_name VARCHAR(255) NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (namespace_id, task_queue_name) )
-- out
CREATE TABLE task_queue_user_data ( namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), task_queue_name VARCHAR(255) NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (namespace_id__byteahex, task_queue_name) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE build_id_to_task_queue ( namespace_id BYTEA NOT NULL, build_id VARCHAR(255) NOT NULL, task_queue_name VARCHAR(255) NOT NULL, PRIMARY KEY (namespace_id, build_id, task_queue_name) )
-- out
CREATE TABLE build_id_to_task_queue ( namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), build_id VARCHAR(255) NOT NULL, task_queue_name VARCHAR(255) NOT NULL, PRIMARY KEY (namespace_id__byteahex, build_id, task_queue_name) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE history_immediate_tasks( shard_id INTEGER NOT NULL, category_id INTEGER NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, category_id, task_id) )
-- out
same
-- rules


-- in
CREATE TABLE history_scheduled_tasks ( shard_id INTEGER NOT NULL, category_id INTEGER NOT NULL, visibility_timestamp TIMESTAMP NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, category_id, visibility_timestamp, task_id) )
-- out
same
-- rules


-- in
CREATE TABLE transfer_tasks( shard_id INTEGER NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, task_id) )
-- out
same
-- rules


-- in
CREATE TABLE timer_tasks ( shard_id INTEGER NOT NULL, visibility_timestamp TIMESTAMP NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, visibility_timestamp, task_id) )
-- out
same
-- rules


-- in
CREATE TABLE replication_tasks ( shard_id INTEGER NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, task_id) )
-- out
same
-- rules


-- in
CREATE TABLE replication_tasks_dlq ( source_cluster_name VARCHAR(255) NOT NULL, shard_id INTEGER NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (source_cluster_name, shard_id, task_id) )
-- out
same
-- rules


-- in
CREATE TABLE visibility_tasks( shard_id INTEGER NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, task_id) )
-- out
same
-- rules


-- in
CREATE TABLE activity_info_maps ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, schedule_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, schedule_id) )
-- out
CREATE TABLE activity_info_maps ( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id__byteahex text NOT NULL CONSTRAINT run_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(run_id__byteahex, 'hex'), 'hex') = run_id__byteahex), schedule_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id, run_id__byteahex, schedule_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE timer_info_maps ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, timer_id VARCHAR(255) NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, timer_id) )
-- out
CREATE TABLE timer_info_maps ( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id__byteahex text NOT NULL CONSTRAINT run_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(run_id__byteahex, 'hex'), 'hex') = run_id__byteahex), timer_id VARCHAR(255) NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id, run_id__byteahex, timer_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE child_execution_info_maps ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, initiated_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, initiated_id) )
-- out
CREATE TABLE child_execution_info_maps ( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id__byteahex text NOT NULL CONSTRAINT run_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(run_id__byteahex, 'hex'), 'hex') = run_id__byteahex), initiated_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id, run_id__byteahex, initiated_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE request_cancel_info_maps ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, initiated_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, initiated_id) )
-- out
CREATE TABLE request_cancel_info_maps ( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id__byteahex text NOT NULL CONSTRAINT run_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(run_id__byteahex, 'hex'), 'hex') = run_id__byteahex), initiated_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id, run_id__byteahex, initiated_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE signal_info_maps ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, initiated_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, initiated_id) )
-- out
CREATE TABLE signal_info_maps ( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id__byteahex text NOT NULL CONSTRAINT run_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(run_id__byteahex, 'hex'), 'hex') = run_id__byteahex), initiated_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id, run_id__byteahex, initiated_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE signals_requested_sets ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, signal_id VARCHAR(255) NOT NULL, PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, signal_id) )
-- out
CREATE TABLE signals_requested_sets ( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id__byteahex text NOT NULL CONSTRAINT run_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(run_id__byteahex, 'hex'), 'hex') = run_id__byteahex), signal_id VARCHAR(255) NOT NULL, PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id, run_id__byteahex, signal_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE chasm_node_maps ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, chasm_path BYTEA NOT NULL, metadata BYTEA NOT NULL, metadata_encoding VARCHAR(16), data BYTEA, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, chasm_path) )
-- out
CREATE TABLE chasm_node_maps ( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id__byteahex text NOT NULL CONSTRAINT run_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(run_id__byteahex, 'hex'), 'hex') = run_id__byteahex), chasm_path__byteahex text NOT NULL CONSTRAINT chasm_path__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(chasm_path__byteahex, 'hex'), 'hex') = chasm_path__byteahex), metadata BYTEA NOT NULL, metadata_encoding VARCHAR(16), data BYTEA, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id, run_id__byteahex, chasm_path__byteahex) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE history_node ( shard_id INTEGER NOT NULL, tree_id BYTEA NOT NULL, branch_id BYTEA NOT NULL, node_id BIGINT NOT NULL, txn_id BIGINT NOT NULL, prev_txn_id BIGINT NOT NULL DEFAULT 0, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, tree_id, branch_id, node_id, txn_id) )
-- out
CREATE TABLE history_node ( shard_id INTEGER NOT NULL, tree_id__byteahex text NOT NULL CONSTRAINT tree_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(tree_id__byteahex, 'hex'), 'hex') = tree_id__byteahex), branch_id__byteahex text NOT NULL CONSTRAINT branch_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(branch_id__byteahex, 'hex'), 'hex') = branch_id__byteahex), node_id BIGINT NOT NULL, txn_id BIGINT NOT NULL, prev_txn_id BIGINT NOT NULL DEFAULT 0, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, tree_id__byteahex, branch_id__byteahex, node_id, txn_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE history_tree ( shard_id INTEGER NOT NULL, tree_id BYTEA NOT NULL, branch_id BYTEA NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, tree_id, branch_id) )
-- out
CREATE TABLE history_tree ( shard_id INTEGER NOT NULL, tree_id__byteahex text NOT NULL CONSTRAINT tree_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(tree_id__byteahex, 'hex'), 'hex') = tree_id__byteahex), branch_id__byteahex text NOT NULL CONSTRAINT branch_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(branch_id__byteahex, 'hex'), 'hex') = branch_id__byteahex), data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, tree_id__byteahex, branch_id__byteahex) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE queue ( queue_type INTEGER NOT NULL, message_id BIGINT NOT NULL, message_payload BYTEA NOT NULL, message_encoding VARCHAR(16) NOT NULL, PRIMARY KEY(queue_type, message_id) )
-- out
same
-- rules


-- in
CREATE TABLE queue_metadata ( queue_type INTEGER NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY(queue_type) )
-- out
same
-- rules


-- in
CREATE TABLE cluster_metadata_info ( metadata_partition INTEGER NOT NULL, cluster_name VARCHAR(255) NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY(metadata_partition, cluster_name) )
-- out
same
-- rules


-- in
CREATE TABLE cluster_membership ( membership_partition INTEGER NOT NULL, host_id BYTEA NOT NULL, rpc_address VARCHAR(128) NOT NULL, rpc_port SMALLINT NOT NULL, role SMALLINT NOT NULL, session_start TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', last_heartbeat TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', record_expiry TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', PRIMARY KEY (membership_partition, host_id) )
-- out
CREATE TABLE cluster_membership ( membership_partition INTEGER NOT NULL, host_id__byteahex text NOT NULL CONSTRAINT host_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(host_id__byteahex, 'hex'), 'hex') = host_id__byteahex), rpc_address VARCHAR(128) NOT NULL, rpc_port SMALLINT NOT NULL, role SMALLINT NOT NULL, session_start TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', last_heartbeat TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', record_expiry TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', PRIMARY KEY (membership_partition, host_id__byteahex) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE queues ( queue_type INT NOT NULL, queue_name VARCHAR(255) NOT NULL, metadata_payload BYTEA NOT NULL, metadata_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (queue_type, queue_name) )
-- out
same
-- rules


-- in
CREATE TABLE queue_messages ( queue_type INT NOT NULL, queue_name VARCHAR(255) NOT NULL, queue_partition BIGINT NOT NULL, message_id BIGINT NOT NULL, message_payload BYTEA NOT NULL, message_encoding VARCHAR(16) NOT NULL, PRIMARY KEY ( queue_type, queue_name, queue_partition, message_id ) )
-- out
same
-- rules


-- in
CREATE TABLE nexus_endpoints ( id BYTEA NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (id) )
-- out
CREATE TABLE nexus_endpoints ( id__byteahex text NOT NULL CONSTRAINT id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(id__byteahex, 'hex'), 'hex') = id__byteahex), data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (id__byteahex) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE nexus_endpoints_partition_status ( id INT NOT NULL PRIMARY KEY DEFAULT 0, version BIGINT NOT NULL, CONSTRAINT only_one_row CHECK (id = 0) )
-- out
same
-- rules


-- in
CREATE UNIQUE INDEX cm_idx_rolehost ON cluster_membership (role, host_id)
-- out
CREATE UNIQUE INDEX ASYNC cm_idx_rolehost ON cluster_membership (role, host_id__byteahex)
-- rules
bytea bytea_key rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX cm_idx_rolelasthb ON cluster_membership (role, last_heartbeat)
-- out
CREATE INDEX ASYNC cm_idx_rolelasthb ON cluster_membership (role, last_heartbeat)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX cm_idx_rpchost ON cluster_membership (rpc_address, role)
-- out
CREATE INDEX ASYNC cm_idx_rpchost ON cluster_membership (rpc_address, role)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX cm_idx_lasthb ON cluster_membership (last_heartbeat)
-- out
CREATE INDEX ASYNC cm_idx_lasthb ON cluster_membership (last_heartbeat)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX cm_idx_recordexpiry ON cluster_membership (record_expiry)
-- out
CREATE INDEX ASYNC cm_idx_recordexpiry ON cluster_membership (record_expiry)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE DATABASE temporal
-- out
same
-- rules
database create_database answered info
refusal 42P04: Every database name means the cluster's one database.

-- in
CREATE TABLE executions( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, next_event_id BIGINT NOT NULL, last_write_version BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, state BYTEA NOT NULL, state_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id) )
-- out
CREATE TABLE executions( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id__byteahex text NOT NULL CONSTRAINT run_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(run_id__byteahex, 'hex'), 'hex') = run_id__byteahex), next_event_id BIGINT NOT NULL, last_write_version BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, state BYTEA NOT NULL, state_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id, run_id__byteahex) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE current_executions( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, create_request_id VARCHAR(64) NOT NULL, state INTEGER NOT NULL, status INTEGER NOT NULL, start_version BIGINT NOT NULL, last_write_version BIGINT NOT NULL, PRIMARY KEY (shard_id, namespace_id, workflow_id) )
-- out
CREATE TABLE current_executions( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, create_request_id VARCHAR(64) NOT NULL, state INTEGER NOT NULL, status INTEGER NOT NULL, start_version BIGINT NOT NULL, last_write_version BIGINT NOT NULL, PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE signals_requested_sets ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, signal_id VARCHAR(64) NOT NULL, PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, signal_id) )
-- out
CREATE TABLE signals_requested_sets ( shard_id INTEGER NOT NULL, namespace_id__byteahex text NOT NULL CONSTRAINT namespace_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(namespace_id__byteahex, 'hex'), 'hex') = namespace_id__byteahex), workflow_id VARCHAR(255) NOT NULL, run_id__byteahex text NOT NULL CONSTRAINT run_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(run_id__byteahex, 'hex'), 'hex') = run_id__byteahex), signal_id VARCHAR(64) NOT NULL, PRIMARY KEY (shard_id, namespace_id__byteahex, workflow_id, run_id__byteahex, signal_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE history_node ( shard_id INTEGER NOT NULL, tree_id BYTEA NOT NULL, branch_id BYTEA NOT NULL, node_id BIGINT NOT NULL, txn_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, tree_id, branch_id, node_id, txn_id) )
-- out
CREATE TABLE history_node ( shard_id INTEGER NOT NULL, tree_id__byteahex text NOT NULL CONSTRAINT tree_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(tree_id__byteahex, 'hex'), 'hex') = tree_id__byteahex), branch_id__byteahex text NOT NULL CONSTRAINT branch_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(branch_id__byteahex, 'hex'), 'hex') = branch_id__byteahex), node_id BIGINT NOT NULL, txn_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, tree_id__byteahex, branch_id__byteahex, node_id, txn_id) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE queue ( queue_type INTEGER NOT NULL, message_id BIGINT NOT NULL, message_payload BYTEA NOT NULL, PRIMARY KEY(queue_type, message_id) )
-- out
same
-- rules


-- in
CREATE TABLE queue_metadata ( queue_type INTEGER NOT NULL, data BYTEA NOT NULL, PRIMARY KEY(queue_type) )
-- out
same
-- rules


-- in
CREATE TABLE cluster_metadata ( metadata_partition INTEGER NOT NULL, immutable_data BYTEA NOT NULL, immutable_data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY(metadata_partition) )
-- out
same
-- rules


-- in
CREATE TABLE cluster_membership ( membership_partition INTEGER NOT NULL, host_id BYTEA NOT NULL, rpc_address VARCHAR(15) NOT NULL, rpc_port SMALLINT NOT NULL, role SMALLINT NOT NULL, session_start TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', last_heartbeat TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', record_expiry TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', PRIMARY KEY (membership_partition, host_id) )
-- out
CREATE TABLE cluster_membership ( membership_partition INTEGER NOT NULL, host_id__byteahex text NOT NULL CONSTRAINT host_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(host_id__byteahex, 'hex'), 'hex') = host_id__byteahex), rpc_address VARCHAR(15) NOT NULL, rpc_port SMALLINT NOT NULL, role SMALLINT NOT NULL, session_start TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', last_heartbeat TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', record_expiry TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', PRIMARY KEY (membership_partition, host_id__byteahex) )
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE cluster_metadata ADD data BYTEA NOT NULL DEFAULT ''
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE cluster_metadata ADD data_encoding VARCHAR(16) NOT NULL DEFAULT 'Proto3'
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE cluster_metadata ADD version BIGINT NOT NULL DEFAULT 1
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE queue ADD message_encoding VARCHAR(16) NOT NULL DEFAULT 'Json'
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE queue_metadata ADD data_encoding VARCHAR(16) NOT NULL DEFAULT 'Json'
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE cluster_metadata DROP immutable_data
-- out
same
-- rules


-- in
ALTER TABLE cluster_metadata DROP immutable_data_encoding
-- out
same
-- rules


-- in
ALTER TABLE cluster_membership ALTER COLUMN rpc_address TYPE VARCHAR(128)
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE history_node ADD prev_txn_id BIGINT NOT NULL DEFAULT 0
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE executions ADD db_record_version BIGINT NOT NULL DEFAULT 0
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE queue_metadata ADD version BIGINT NOT NULL DEFAULT 0
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE current_executions ALTER COLUMN start_version SET DEFAULT 0
-- out
same
-- rules


-- in
CREATE TABLE tiered_storage_tasks( shard_id INTEGER NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, task_id) )
-- out
same
-- rules


-- in
DROP TABLE tiered_storage_tasks
-- out
same
-- rules


-- in
ALTER TABLE current_executions ALTER COLUMN create_request_id TYPE VARCHAR(255)
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE signals_requested_sets ALTER COLUMN signal_id TYPE VARCHAR(255)
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
CREATE TABLE nexus_incoming_services ( service_id BYTEA NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (service_id) )
-- out
CREATE TABLE nexus_incoming_services ( service_id__byteahex text NOT NULL CONSTRAINT service_id__byteahex CHECK (pg_catalog.encode(pg_catalog.decode(service_id__byteahex, 'hex'), 'hex') = service_id__byteahex), data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (service_id__byteahex) )
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE nexus_incoming_services_partition_status ( id INT NOT NULL PRIMARY KEY DEFAULT 0, version BIGINT NOT NULL, CONSTRAINT only_one_row CHECK (id = 0) )
-- out
same
-- rules


-- in
DROP TABLE nexus_incoming_services
-- out
same
-- rules


-- in
DROP TABLE nexus_incoming_services_partition_status
-- out
same
-- rules


-- in
ALTER TABLE current_executions ADD COLUMN start_time TIMESTAMP NULL
-- out
ALTER TABLE current_executions ADD COLUMN start_time TIMESTAMP
-- rules
alter alter_add_null rewritten info

-- in
ALTER TABLE current_executions ADD COLUMN data BYTEA NULL, ADD COLUMN data_encoding VARCHAR(16) NULL
-- out
ALTER TABLE current_executions ADD COLUMN data BYTEA, ADD COLUMN data_encoding VARCHAR(16)
-- rules
alter alter_add_null rewritten info
alter alter_add_null rewritten info

-- in
ALTER TABLE current_executions DROP COLUMN data_encoding
-- out
same
-- rules


-- in
ALTER TABLE current_executions ADD COLUMN data_encoding VARCHAR(16) NOT NULL DEFAULT ''
-- out
same
-- rules
dialect alter_add_column flagged error

