CREATE INDEX person_name ON person (name);
VACUUM person;
