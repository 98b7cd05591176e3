/**
 * @typedef {import('typeorm').MigrationInterface} MigrationInterface
 * @typedef {import('typeorm').QueryRunner} QueryRunner
 */

/**
 * @class
 * @implements {MigrationInterface}
 */
module.exports = class Longer1795648096249 {
    name = 'Longer1795648096249'

    /**
     * @param {QueryRunner} queryRunner
     */
    async up(queryRunner) {
        await queryRunner.query(`ALTER TABLE "book" DROP CONSTRAINT "UQ_be4c1a33be50c63ace71a645898"`);
        await queryRunner.query(`DROP INDEX "public"."IDX_c10a44a29ef231062f22b1b7ac"`);
        await queryRunner.query(`ALTER TABLE "book" DROP COLUMN "title"`);
        await queryRunner.query(`ALTER TABLE "book" ADD "title" character varying(200) NOT NULL`);
        await queryRunner.query(`CREATE INDEX "IDX_c10a44a29ef231062f22b1b7ac" ON "book"  ("title") `);
        await queryRunner.query(`ALTER TABLE "book" ADD CONSTRAINT "UQ_be4c1a33be50c63ace71a645898" UNIQUE ("authorId", "title")`);
    }

    /**
     * @param {QueryRunner} queryRunner
     */
    async down(queryRunner) {
        await queryRunner.query(`ALTER TABLE "book" DROP CONSTRAINT "UQ_be4c1a33be50c63ace71a645898"`);
        await queryRunner.query(`DROP INDEX "public"."IDX_c10a44a29ef231062f22b1b7ac"`);
        await queryRunner.query(`ALTER TABLE "book" DROP COLUMN "title"`);
        await queryRunner.query(`ALTER TABLE "book" ADD "title" character varying(100) NOT NULL`);
        await queryRunner.query(`CREATE INDEX "IDX_c10a44a29ef231062f22b1b7ac" ON "book" USING btree ("title") `);
        await queryRunner.query(`ALTER TABLE "book" ADD CONSTRAINT "UQ_be4c1a33be50c63ace71a645898" UNIQUE ("title", "authorId")`);
    }
}
