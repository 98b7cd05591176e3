-- CreateIndex
CREATE INDEX "User_role_idx" ON "User"("role" ASC);
