CREATE TABLE IF NOT EXISTS "users" (
	"id" serial PRIMARY KEY NOT NULL,
	"full_name" text,
	"tags" text[]
);
--> statement-breakpoint
CREATE TABLE IF NOT EXISTS "cities" ("id" integer PRIMARY KEY)
--> statement-breakpoint
DO $$ BEGIN
 ALTER TABLE "cities" ADD CONSTRAINT "x" FOREIGN KEY ("id") REFERENCES "users"("id") ON DELETE no action;
EXCEPTION
 WHEN duplicate_object THEN null;
END $$;
--> statement-breakpoint
CREATE UNIQUE INDEX "name_idx" ON "users" USING btree ("full_name");--> statement-breakpoint
CREATE INDEX "gin_idx" ON "users" USING gin ("tags");
