DROP INDEX person_name;
