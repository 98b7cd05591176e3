-- AlterTable
ALTER TABLE "Author" ADD COLUMN     "born" DATE;

-- CreateIndex
CREATE INDEX "Author_born_idx" ON "Author"("born");
