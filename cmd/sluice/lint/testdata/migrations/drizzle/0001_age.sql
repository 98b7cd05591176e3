ALTER TABLE "users" ADD COLUMN "age" integer;
