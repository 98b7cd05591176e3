/**
 * @typedef {import('typeorm').MigrationInterface} MigrationInterface
 * @typedef {import('typeorm').QueryRunner} QueryRunner
 */

/**
 * @class
 * @implements {MigrationInterface}
 */
module.exports = class Born1795648093350 {
    name = 'Born1795648093350'

    /**
     * @param {QueryRunner} queryRunner
     */
    async up(queryRunner) {
        await queryRunner.query(`ALTER TABLE "author" ADD "born" date`);
        await queryRunner.query(`CREATE INDEX "IDX_cf5e96dc835d2f1e8cafdc8861" ON "author"  ("born") `);
    }

    /**
     * @param {QueryRunner} queryRunner
     */
    async down(queryRunner) {
        await queryRunner.query(`DROP INDEX "public"."IDX_cf5e96dc835d2f1e8cafdc8861"`);
        await queryRunner.query(`ALTER TABLE "author" DROP COLUMN "born"`);
    }
}
