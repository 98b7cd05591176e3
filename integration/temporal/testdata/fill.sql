-- Fills Temporal's stock schema with :n executions and what belongs to them: rows as a server
-- leaves them, with keys of 16 bytes, keys of any length, empty ones, and bytes of all values.
CREATE FUNCTION pg_temp.id(text) RETURNS bytea LANGUAGE sql AS $$ SELECT decode(md5($1), 'hex') $$;
CREATE FUNCTION pg_temp.blob(text, int) RETURNS bytea LANGUAGE sql AS
    $$ SELECT substring(decode(string_agg(md5($1 || i), ''), 'hex') FROM 1 FOR $2) FROM generate_series(1, $2 / 16 + 1) i $$;
INSERT INTO namespaces VALUES (54321, pg_temp.id('namespace'), 'orders', 1, 'x', 'Proto3', true);
UPDATE namespace_metadata SET notification_version = 2;
INSERT INTO shards SELECT i, 7, pg_temp.blob('shard' || i, 300), 'Proto3' FROM generate_series(1, 4) i;
INSERT INTO executions
    SELECT 1 + i % 4, pg_temp.id('namespace'), 'order-' || i, pg_temp.id('run' || i), 11, 0, pg_temp.blob('d' || i, 1500), 'Proto3', pg_temp.blob('s' || i, 100), 'Proto3', 5
    FROM generate_series(1, :n) i;
INSERT INTO current_executions
    (shard_id, namespace_id, workflow_id, run_id, create_request_id, state, status, start_version, last_write_version, start_time, data, data_encoding)
    SELECT 1 + i % 4, pg_temp.id('namespace'), 'order-' || i, pg_temp.id('run' || i), 'r''' || i || ', "\x\"', 2, 1, 0, 0, TIMESTAMP '2026-11-24' + i * INTERVAL '1 s', '\x', 'Proto3'
    FROM generate_series(1, :n) i;
INSERT INTO history_node
    SELECT 1 + i % 4, pg_temp.id('tree' || i), pg_temp.id('branch' || i), 1 + 3 * node, -1000 * i - node, 0, pg_temp.blob('n' || i || node, 600), 'Proto3'
    FROM generate_series(1, :n) i, generate_series(0, 2) node;
INSERT INTO history_tree SELECT 1 + i % 4, pg_temp.id('tree' || i), pg_temp.id('branch' || i), pg_temp.blob('t' || i, 150), 'Proto3' FROM generate_series(1, :n) i;
INSERT INTO activity_info_maps SELECT 1 + i % 4, pg_temp.id('namespace'), 'order-' || i, pg_temp.id('run' || i), 5, pg_temp.blob('a' || i, 400), 'Proto3' FROM generate_series(1, :n, 3) i;
INSERT INTO timer_info_maps SELECT 1 + i % 4, pg_temp.id('namespace'), 'order-' || i, pg_temp.id('run' || i), 'timer ' || i, pg_temp.blob('a' || i, 40), 'Proto3' FROM generate_series(1, :n, 5) i;
INSERT INTO chasm_node_maps SELECT 1 + i % 4, pg_temp.id('namespace'), 'order-' || i, pg_temp.id('run' || i), path, '\x00ff', 'x', 'y', 'Proto3'
    FROM generate_series(1, :n, 7) i, unnest(ARRAY['\x'::bytea, convert_to('a$b#', 'UTF8') || '\x5c'::bytea]) path;
INSERT INTO buffered_events (shard_id, namespace_id, workflow_id, run_id, data, data_encoding)
    SELECT 1 + i % 4, pg_temp.id('namespace'), 'order-' || i, pg_temp.id('run' || i), pg_temp.blob('b' || i, 200), 'Proto3' FROM generate_series(1, :n, 11) i;
INSERT INTO transfer_tasks SELECT 1 + i % 4, i, pg_temp.blob('q' || i, 120), 'Proto3' FROM generate_series(1, :n) i;
INSERT INTO timer_tasks SELECT 1 + i % 4, TIMESTAMP '2026-11-25' + i * INTERVAL '1 ms', i, pg_temp.blob('q' || i, 120), 'Proto3' FROM generate_series(1, :n) i;
INSERT INTO task_queues SELECT i, pg_temp.id('namespace') || convert_to('/_sys/queue é/' || i, 'UTF8') || '\x01', 3, pg_temp.blob('tq' || i, 90), 'Proto3' FROM generate_series(1, 20) i;
INSERT INTO tasks SELECT i % 20, pg_temp.id('namespace') || convert_to('/_sys/queue é/' || i % 20, 'UTF8') || '\x01', i, pg_temp.blob('task' || i, 100), 'Proto3' FROM generate_series(1, :n, 2) i;
INSERT INTO cluster_metadata_info VALUES (0, 'active', 'x', 'Proto3', 3);
INSERT INTO queue_metadata VALUES (1, 'x', 'Proto3', 0);
INSERT INTO queue SELECT 1, i, pg_temp.blob('m' || i, 50), 'Proto3' FROM generate_series(1, 100) i;
