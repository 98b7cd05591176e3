-- migrate:up transaction:false
CREATE TABLE a (x int);
CREATE TABLE b (x int);

-- migrate:down
DROP TABLE a;
