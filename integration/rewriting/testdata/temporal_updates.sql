# What temporal-sql-tool sends when it brings a database from v0.0 to v1.19 (Temporal server
# 1.32.0, MIT licence), statement by statement; values of the tool's own two INSERTs are filled in.

-- v1.0 1
CREATE TABLE namespaces( partition_id INTEGER NOT NULL, id BYTEA NOT NULL, name VARCHAR(255) UNIQUE NOT NULL, notification_version BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, is_global BOOLEAN NOT NULL, PRIMARY KEY(partition_id, id) )
-- v1.0 2
CREATE TABLE namespace_metadata ( partition_id INTEGER NOT NULL, notification_version BIGINT NOT NULL, PRIMARY KEY(partition_id) )
-- v1.0 3
INSERT INTO namespace_metadata (partition_id, notification_version) VALUES (54321, 1)
-- v1.0 4
CREATE TABLE shards ( shard_id INTEGER NOT NULL, range_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id) )
-- v1.0 5
CREATE TABLE transfer_tasks( shard_id INTEGER NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, task_id) )
-- v1.0 6
CREATE TABLE executions( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, next_event_id BIGINT NOT NULL, last_write_version BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, state BYTEA NOT NULL, state_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id) )
-- v1.0 7
CREATE TABLE current_executions( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, create_request_id VARCHAR(64) NOT NULL, state INTEGER NOT NULL, status INTEGER NOT NULL, start_version BIGINT NOT NULL, last_write_version BIGINT NOT NULL, PRIMARY KEY (shard_id, namespace_id, workflow_id) )
-- v1.0 8
CREATE TABLE buffered_events ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, id BIGSERIAL NOT NULL UNIQUE, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, id) )
-- v1.0 9
CREATE TABLE tasks ( range_hash BIGINT NOT NULL, task_queue_id BYTEA NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (range_hash, task_queue_id, task_id) )
-- v1.0 10
CREATE TABLE task_queues ( range_hash BIGINT NOT NULL, task_queue_id BYTEA NOT NULL, range_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (range_hash, task_queue_id) )
-- v1.0 11
CREATE TABLE replication_tasks ( shard_id INTEGER NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, task_id) )
-- v1.0 12
CREATE TABLE replication_tasks_dlq ( source_cluster_name VARCHAR(255) NOT NULL, shard_id INTEGER NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (source_cluster_name, shard_id, task_id) )
-- v1.0 13
CREATE TABLE timer_tasks ( shard_id INTEGER NOT NULL, visibility_timestamp TIMESTAMP NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, visibility_timestamp, task_id) )
-- v1.0 14
CREATE TABLE activity_info_maps ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, schedule_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, schedule_id) )
-- v1.0 15
CREATE TABLE timer_info_maps ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, timer_id VARCHAR(255) NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, timer_id) )
-- v1.0 16
CREATE TABLE child_execution_info_maps ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, initiated_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, initiated_id) )
-- v1.0 17
CREATE TABLE request_cancel_info_maps ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, initiated_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, initiated_id) )
-- v1.0 18
CREATE TABLE signal_info_maps ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, initiated_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, initiated_id) )
-- v1.0 19
CREATE TABLE signals_requested_sets ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, signal_id VARCHAR(64) NOT NULL, PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, signal_id) )
-- v1.0 20
CREATE TABLE history_node ( shard_id INTEGER NOT NULL, tree_id BYTEA NOT NULL, branch_id BYTEA NOT NULL, node_id BIGINT NOT NULL, txn_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, tree_id, branch_id, node_id, txn_id) )
-- v1.0 21
CREATE TABLE history_tree ( shard_id INTEGER NOT NULL, tree_id BYTEA NOT NULL, branch_id BYTEA NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, tree_id, branch_id) )
-- v1.0 22
CREATE TABLE queue ( queue_type INTEGER NOT NULL, message_id BIGINT NOT NULL, message_payload BYTEA NOT NULL, PRIMARY KEY(queue_type, message_id) )
-- v1.0 23
CREATE TABLE queue_metadata ( queue_type INTEGER NOT NULL, data BYTEA NOT NULL, PRIMARY KEY(queue_type) )
-- v1.0 24
CREATE TABLE cluster_metadata ( metadata_partition INTEGER NOT NULL, immutable_data BYTEA NOT NULL, immutable_data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY(metadata_partition) )
-- v1.0 25
CREATE TABLE cluster_membership ( membership_partition INTEGER NOT NULL, host_id BYTEA NOT NULL, rpc_address VARCHAR(15) NOT NULL, rpc_port SMALLINT NOT NULL, role SMALLINT NOT NULL, session_start TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', last_heartbeat TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', record_expiry TIMESTAMP DEFAULT '1970-01-01 00:00:01+00:00', PRIMARY KEY (membership_partition, host_id) )
-- v1.0 26
CREATE UNIQUE INDEX cm_idx_rolehost ON cluster_membership (role, host_id)
-- v1.0 27
CREATE INDEX cm_idx_rolelasthb ON cluster_membership (role, last_heartbeat)
-- v1.0 28
CREATE INDEX cm_idx_rpchost ON cluster_membership (rpc_address, role)
-- v1.0 29
CREATE INDEX cm_idx_lasthb ON cluster_membership (last_heartbeat)
-- v1.0 30
CREATE INDEX cm_idx_recordexpiry ON cluster_membership (record_expiry)
-- v1.0 31
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.0','0.1') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.0 32
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:03','0.0','1.0','','base version of schema')
-- v1.1 1
ALTER TABLE cluster_metadata ADD data BYTEA NOT NULL DEFAULT ''
-- v1.1 2
ALTER TABLE cluster_metadata ADD data_encoding VARCHAR(16) NOT NULL DEFAULT 'Proto3'
-- v1.1 3
ALTER TABLE cluster_metadata ADD version BIGINT NOT NULL DEFAULT 1
-- v1.1 4
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.1','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.1 5
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:04','1.0','1.1','','schema update for cluster metadata')
-- v1.2 1
ALTER TABLE queue ADD message_encoding VARCHAR(16) NOT NULL DEFAULT 'Json'
-- v1.2 2
ALTER TABLE queue_metadata ADD data_encoding VARCHAR(16) NOT NULL DEFAULT 'Json'
-- v1.2 3
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.2','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.2 4
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:05','1.1','1.2','','schema update for RPC replication')
-- v1.3 1
CREATE TABLE visibility_tasks( shard_id INTEGER NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, task_id) )
-- v1.3 2
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.3','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.3 3
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:06','1.2','1.3','','schema update for kafka deprecation')
-- v1.4 1
ALTER TABLE cluster_metadata DROP immutable_data
-- v1.4 2
ALTER TABLE cluster_metadata DROP immutable_data_encoding
-- v1.4 3
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.4','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.4 4
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:07','1.3','1.4','','schema update for cluster metadata cleanup')
-- v1.5 1
ALTER TABLE history_node ADD prev_txn_id BIGINT NOT NULL DEFAULT 0
-- v1.5 2
ALTER TABLE executions ADD db_record_version BIGINT NOT NULL DEFAULT 0
-- v1.5 3
ALTER TABLE cluster_membership ALTER COLUMN rpc_address TYPE VARCHAR(128)
-- v1.5 4
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.5','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.5 5
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:08','1.4','1.5','','schema update for cluster_membership, executions and history_node tables')
-- v1.6 1
ALTER TABLE queue_metadata ADD version BIGINT NOT NULL DEFAULT 0
-- v1.6 2
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.6','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.6 3
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:09','1.5','1.6','','schema update for queue_metadata')
-- v1.7 1
CREATE TABLE cluster_metadata_info ( metadata_partition INTEGER NOT NULL, cluster_name VARCHAR(255) NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY(metadata_partition, cluster_name) )
-- v1.7 2
ALTER TABLE current_executions ALTER COLUMN start_version SET DEFAULT 0
-- v1.7 3
CREATE TABLE tiered_storage_tasks( shard_id INTEGER NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, task_id) )
-- v1.7 4
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.7','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.7 5
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:10','1.6','1.7','','create cluster metadata info table to store cluster information and executions to store tiered storage queue')
-- v1.8 1
DROP TABLE tiered_storage_tasks
-- v1.8 2
ALTER TABLE current_executions ALTER COLUMN create_request_id TYPE VARCHAR(255)
-- v1.8 3
ALTER TABLE signals_requested_sets ALTER COLUMN signal_id TYPE VARCHAR(255)
-- v1.8 4
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.8','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.8 5
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:11','1.7','1.8','','drop unused tasks table; Expand VARCHAR columns governed by maxIDLength to VARCHAR(255)')
-- v1.9 1
CREATE TABLE history_immediate_tasks( shard_id INTEGER NOT NULL, category_id INTEGER NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, category_id, task_id) )
-- v1.9 2
CREATE TABLE history_scheduled_tasks ( shard_id INTEGER NOT NULL, category_id INTEGER NOT NULL, visibility_timestamp TIMESTAMP NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (shard_id, category_id, visibility_timestamp, task_id) )
-- v1.9 3
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.9','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.9 4
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:12','1.8','1.9','','add history tasks table')
-- v1.10 1
CREATE TABLE task_queue_user_data ( namespace_id BYTEA NOT NULL, task_queue_name VARCHAR(255) NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (namespace_id, task_queue_name) )
-- v1.10 2
CREATE TABLE build_id_to_task_queue ( namespace_id BYTEA NOT NULL, build_id VARCHAR(255) NOT NULL, task_queue_name VARCHAR(255) NOT NULL, PRIMARY KEY (namespace_id, build_id, task_queue_name) )
-- v1.10 3
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.10','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.10 4
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:13','1.9','1.10','','add storage for update records and create task_queue_user_data table')
-- v1.11 1
CREATE TABLE queues ( queue_type INT NOT NULL, queue_name VARCHAR(255) NOT NULL, metadata_payload BYTEA NOT NULL, metadata_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (queue_type, queue_name) )
-- v1.11 2
CREATE TABLE queue_messages ( queue_type INT NOT NULL, queue_name VARCHAR(255) NOT NULL, queue_partition BIGINT NOT NULL, message_id BIGINT NOT NULL, message_payload BYTEA NOT NULL, message_encoding VARCHAR(16) NOT NULL, PRIMARY KEY ( queue_type, queue_name, queue_partition, message_id ) )
-- v1.11 3
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.11','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.11 4
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:15','1.10','1.11','','add queues and queue_messages tables')
-- v1.12 1
CREATE TABLE nexus_incoming_services ( service_id BYTEA NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (service_id) )
-- v1.12 2
CREATE TABLE nexus_incoming_services_partition_status ( id INT NOT NULL PRIMARY KEY DEFAULT 0, version BIGINT NOT NULL, CONSTRAINT only_one_row CHECK (id = 0) )
-- v1.12 3
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.12','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.12 4
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:16','1.11','1.12','','add storage for Nexus incoming service records and create nexus_incoming_services and nexus_incoming_services_partition_status tables')
-- v1.13 1
DROP TABLE nexus_incoming_services
-- v1.13 2
DROP TABLE nexus_incoming_services_partition_status
-- v1.13 3
CREATE TABLE nexus_endpoints ( id BYTEA NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (id) )
-- v1.13 4
CREATE TABLE nexus_endpoints_partition_status ( id INT NOT NULL PRIMARY KEY DEFAULT 0, version BIGINT NOT NULL, CONSTRAINT only_one_row CHECK (id = 0) )
-- v1.13 5
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.13','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.13 6
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:17','1.12','1.13','','Replace nexus_incoming_services and nexus_incoming_services_partition_status tables with nexus_endpoints and nexus_endpoints_partition_status tables')
-- v1.14 1
ALTER TABLE current_executions ADD COLUMN start_time TIMESTAMP NULL
-- v1.14 2
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.14','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.14 3
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:18','1.13','1.14','','Add new start_time column')
-- v1.15 1
ALTER TABLE current_executions ADD COLUMN data BYTEA NULL, ADD COLUMN data_encoding VARCHAR(16) NULL
-- v1.15 2
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.15','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.15 3
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:19','1.14','1.15','','Add new column `data` to current_executions table')
-- v1.16 1
ALTER TABLE current_executions DROP COLUMN data_encoding
-- v1.16 2
ALTER TABLE current_executions ADD COLUMN data_encoding VARCHAR(16) NOT NULL DEFAULT ''
-- v1.16 3
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.16','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.16 4
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:20','1.15','1.16','','Fix data_encoding column in current_executions table')
-- v1.17 1
CREATE TABLE chasm_node_maps ( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, workflow_id VARCHAR(255) NOT NULL, run_id BYTEA NOT NULL, chasm_path BYTEA NOT NULL, metadata BYTEA NOT NULL, metadata_encoding VARCHAR(16), data BYTEA, data_encoding VARCHAR(16), PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id, chasm_path) )
-- v1.17 2
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.17','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.17 3
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:21','1.16','1.17','','Add new chasm_node_maps table')
-- v1.18 1
CREATE TABLE tasks_v2 ( range_hash BIGINT NOT NULL, task_queue_id BYTEA NOT NULL, pass BIGINT NOT NULL, task_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (range_hash, task_queue_id, pass, task_id) )
-- v1.18 2
CREATE TABLE task_queues_v2 ( range_hash BIGINT NOT NULL, task_queue_id BYTEA NOT NULL, range_id BIGINT NOT NULL, data BYTEA NOT NULL, data_encoding VARCHAR(16) NOT NULL, PRIMARY KEY (range_hash, task_queue_id) )
-- v1.18 3
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.18','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.18 4
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:22','1.17','1.18','','Adds tasks_v2 table for fairness tasks')
-- v1.19 1
CREATE TABLE current_chasm_executions( shard_id INTEGER NOT NULL, namespace_id BYTEA NOT NULL, business_id VARCHAR(255) NOT NULL, archetype_id BIGINT NOT NULL, run_id BYTEA NOT NULL, create_request_id VARCHAR(255) NOT NULL, state INTEGER NOT NULL, status INTEGER NOT NULL, start_version BIGINT NOT NULL DEFAULT 0, start_time TIMESTAMP NULL, last_write_version BIGINT NOT NULL, data BYTEA NULL, data_encoding VARCHAR(16) NOT NULL DEFAULT '', PRIMARY KEY (shard_id, namespace_id, business_id, archetype_id) )
-- v1.19 2
INSERT into schema_version(version_partition, db_name, creation_time, curr_version, min_compatible_version) VALUES (0,'temporal','2026-01-01 00:00:00','1.19','1.0') ON CONFLICT (version_partition, db_name) DO UPDATE SET creation_time = excluded.creation_time, curr_version = excluded.curr_version, min_compatible_version = excluded.min_compatible_version
-- v1.19 3
INSERT into schema_update_history(version_partition, year, month, update_time, old_version, new_version, manifest_md5, description) VALUES(0,2026,1,'2026-01-01 00:00:23','1.18','1.19','','Adds current_chasm_executions table for separate archetype ID space')
