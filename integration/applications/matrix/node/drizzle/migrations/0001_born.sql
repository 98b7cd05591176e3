ALTER TABLE "authors" ADD COLUMN "born" date;--> statement-breakpoint
CREATE INDEX "born_idx" ON "authors" USING btree ("born");