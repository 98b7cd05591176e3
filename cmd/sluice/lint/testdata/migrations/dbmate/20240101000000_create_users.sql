-- migrate:up
create table users (
  id serial,
  name varchar(255) not null
);

-- migrate:down
drop table users;
