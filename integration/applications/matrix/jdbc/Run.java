import java.sql.*;
import java.util.ArrayList;
import java.util.List;

/** JDBC, with migrations that are scripts, each in a transaction. */
public class Run {
    static String url;
    static int bulk, rows, writers, transactions;

    interface Do { Object in(Connection c) throws Exception; }

    static Connection connect() throws SQLException {
        Connection c = DriverManager.getConnection(url);
        c.setAutoCommit(false);
        return c;
    }

    /** step runs in a connection of its own, which commits at the end. */
    static boolean step(String name, Do what) {
        try (Connection c = connect()) {
            Object values = what.in(c);
            c.commit();
            System.out.println(("step " + name + ": ok " + values).replaceAll("\\s+", " "));
            return true;
        } catch (Exception e) {
            System.out.println("step " + name + ": error " + failure(e).replaceAll("\\s+", " "));
            return false;
        }
    }

    /** failure is SQLSTATE and message; a batch has the reason behind it. */
    static String failure(Throwable e) {
        if (e instanceof BatchUpdateException b && b.getNextException() != null) return failure(b.getNextException());
        if (e instanceof org.postgresql.util.PSQLException p && p.getServerErrorMessage() != null)
            return p.getSQLState() + " " + p.getServerErrorMessage().getMessage();
        if (e instanceof SQLException s) return s.getSQLState() + " " + s.getMessage();
        return "- " + e;
    }

    static List<Object> query(Connection c, String sql, Object... args) throws SQLException {
        try (PreparedStatement st = c.prepareStatement(sql)) {
            for (int i = 0; i < args.length; i++) st.setObject(i + 1, args[i]);
            ResultSet r = st.executeQuery();
            List<Object> all = new ArrayList<>();
            while (r.next())
                for (int i = 1; i <= r.getMetaData().getColumnCount(); i++) all.add(r.getObject(i));
            return all;
        }
    }

    static int change(Connection c, String sql, Object... args) throws SQLException {
        try (PreparedStatement st = c.prepareStatement(sql)) {
            for (int i = 0; i < args.length; i++) st.setObject(i + 1, args[i]);
            return st.executeUpdate();
        }
    }

    static long insert(Connection c, String sql, Object... args) throws SQLException {
        try (PreparedStatement st = c.prepareStatement(sql, Statement.RETURN_GENERATED_KEYS)) {
            for (int i = 0; i < args.length; i++) st.setObject(i + 1, args[i]);
            st.executeUpdate();
            ResultSet keys = st.getGeneratedKeys();
            keys.next();
            return keys.getLong("id");
        }
    }

    static Do script(String... statements) {
        return c -> {
            try (Statement st = c.createStatement()) {
                for (String s : statements) st.execute(s);
            }
            c.commit();
            return query(c, "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public'");
        };
    }

    static Object crud(Connection c) throws SQLException {
        long author = insert(c, "INSERT INTO author (name, email) VALUES (?, ?)", "Frank", "frank@example.com");
        org.postgresql.util.PGobject details = new org.postgresql.util.PGobject();
        details.setType("jsonb");
        details.setValue("{\"tags\": [\"sand\"], \"year\": 1965}");
        insert(c, "INSERT INTO book (author_id, title, pages, details) VALUES (?, ?, ?, ?)", author, "Dune", 412, details);
        List<Object> said = query(c, "SELECT title, pages, details FROM book WHERE details->>'year' = ?", "1965");
        c.commit();
        said.add(change(c, "UPDATE book SET pages = pages + 89 WHERE title = ?", "Dune"));
        said.addAll(query(c, "SELECT pages FROM book WHERE author_id = ?", author));
        said.add(change(c, "INSERT INTO author (name, email) VALUES (?, ?) ON CONFLICT (email) DO UPDATE SET name = EXCLUDED.name", "Herbert", "frank@example.com"));
        c.commit();
        said.add(change(c, "DELETE FROM author WHERE name = ANY (?)", c.createArrayOf("text", new String[] {"Herbert", "Other"})));
        said.addAll(query(c, "SELECT (SELECT count(*) FROM author), (SELECT count(*) FROM book)"));
        return said;
    }

    static Object relations(Connection c) throws SQLException {
        long[] authors = {insert(c, "INSERT INTO author (name, email) VALUES (?, ?)", "ann", "ann@example.com"),
            insert(c, "INSERT INTO author (name, email) VALUES (?, ?)", "bob", "bob@example.com")};
        for (int i = 0; i < 4; i++)
            insert(c, "INSERT INTO book (author_id, title, pages) VALUES (?, ?, ?)", authors[i % 2], "book " + i, 100 + i);
        c.commit();
        List<Object> said = query(c, "SELECT a.name, count(*), sum(b.pages) FROM author a JOIN book b ON b.author_id = a.id GROUP BY a.name ORDER BY 1");
        c.commit();
        String[] broken = {"INSERT INTO author (name, email) VALUES ('again', 'ann@example.com')",
            "INSERT INTO book (author_id, title) SELECT id, 'book 0' FROM author WHERE name = 'ann'",
            "INSERT INTO book (author_id, title) VALUES (987654, 'of nobody')"};
        for (String sql : broken) {
            try {
                change(c, sql);
            } catch (SQLException e) {
                said.add(e.getSQLState());
                c.rollback();
            }
        }
        change(c, "DELETE FROM author WHERE name = ?", "ann");
        said.addAll(query(c, "SELECT count(*) FROM book"));
        return said;
    }

    static Object nested(Connection c) throws SQLException {
        change(c, "INSERT INTO item (name, value) VALUES ('outer', 1)");
        Savepoint lost = c.setSavepoint();
        change(c, "INSERT INTO item (name, value) VALUES ('lost', 2)");
        c.rollback(lost);
        Savepoint twice = c.setSavepoint();
        try {
            change(c, "INSERT INTO counter (name) VALUES ('twice')");
            change(c, "INSERT INTO counter (name) VALUES ('twice')");
        } catch (SQLException e) {
            c.rollback(twice);
        }
        Savepoint inner = c.setSavepoint("inner");
        change(c, "INSERT INTO item (name, value) VALUES ('inner', 3)");
        c.releaseSavepoint(inner);
        c.commit();
        List<Object> said = query(c, "SELECT name FROM item ORDER BY value");
        said.addAll(query(c, "SELECT count(*) FROM counter"));
        change(c, "DELETE FROM item");
        return said;
    }

    static void items(Connection c, String name, int from, int to) throws SQLException {
        try (PreparedStatement st = c.prepareStatement("INSERT INTO item (name, value) VALUES (?, ?)")) {
            for (int i = from; i < to; i++) {
                st.setString(1, name + " " + i);
                st.setInt(2, i);
                st.addBatch();
            }
            st.executeBatch();
        }
    }

    static Object bulk(Connection c) throws SQLException {
        items(c, "bulk", 0, bulk);
        return query(c, "SELECT count(*), sum(value) FROM item WHERE name LIKE 'bulk%'");
    }

    static Object batches(Connection c) throws SQLException {
        for (int i = 0; i < rows; i += 1000) {
            items(c, "row", i, i + 1000);
            c.commit();
        }
        return query(c, "SELECT count(*) FROM item WHERE name LIKE 'row%'");
    }

    static Object stream(Connection c) throws SQLException {
        long count = 0, total = 0;
        try (PreparedStatement st = c.prepareStatement("SELECT value FROM item WHERE name LIKE 'row%' ORDER BY value")) {
            st.setFetchSize(1000);
            ResultSet r = st.executeQuery();
            while (r.next()) {
                count++;
                total += r.getInt(1);
            }
        }
        return List.of(count, total);
    }

    static Object writers(Connection c) throws Exception {
        long[] keys = new long[4];
        for (int i = 0; i < 4; i++) keys[i] = insert(c, "INSERT INTO counter (name) VALUES (?)", "shared " + i);
        c.commit();
        List<Exception> failures = new ArrayList<>();
        Thread[] threads = new Thread[writers];
        for (int n = 0; n < writers; n++) {
            int number = n;
            threads[n] = new Thread(() -> {
                try (Connection own = connect()) {
                    for (int i = 0; i < transactions; i++) {
                        insert(own, "INSERT INTO entry (counter_id, label) VALUES (?, ?)", keys[(number + i) % 4], number + "/" + i);
                        change(own, "UPDATE counter SET n = n + 1 WHERE id = ?", keys[(number + i) % 4]);
                        own.commit();
                    }
                } catch (Exception e) {
                    synchronized (failures) {
                        failures.add(e);
                    }
                }
            });
            threads[n].start();
        }
        for (Thread t : threads) t.join();
        if (!failures.isEmpty()) throw failures.get(0);
        return query(c, "SELECT sum(n), (SELECT count(*) FROM entry) FROM counter WHERE name LIKE 'shared%'");
    }

    static Object enumeration(Connection c) throws SQLException {
        for (String sql : new String[] {"CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')", "CREATE TABLE person (id int PRIMARY KEY, now mood NOT NULL)"}) {
            change(c, sql);
            c.commit();
        }
        change(c, "INSERT INTO person VALUES (?, ?::mood)", 1, "happy");
        change(c, "INSERT INTO person VALUES (?, ?::mood)", 2, "sad");
        c.commit();
        List<Object> said = query(c, "SELECT id, now FROM person ORDER BY now");
        try {
            change(c, "INSERT INTO person VALUES (?, ?::mood)", 3, "bored");
        } catch (SQLException e) {
            said.add(e.getSQLState());
            c.rollback();
        }
        for (String sql : new String[] {"DROP TABLE person", "DROP TYPE mood"}) {
            change(c, sql);
            c.commit();
        }
        return said;
    }

    static boolean up() {
        return step("tables", script(
                "CREATE TABLE author (id bigserial PRIMARY KEY, name varchar(100) NOT NULL, email varchar(254) UNIQUE)",
                "CREATE TABLE book (id bigserial PRIMARY KEY, author_id bigint NOT NULL REFERENCES author ON DELETE CASCADE, "
                    + "title varchar(100) NOT NULL, pages integer, details jsonb, UNIQUE (author_id, title))",
                "CREATE INDEX book_title ON book (title)",
                "CREATE TABLE item (id bigserial PRIMARY KEY, name varchar(50), value integer)",
                "CREATE TABLE counter (id bigserial PRIMARY KEY, name varchar(50) UNIQUE, n integer NOT NULL DEFAULT 0)",
                "CREATE TABLE entry (id bigserial PRIMARY KEY, counter_id bigint REFERENCES counter, label varchar(50))"))
            && step("alter", script("ALTER TABLE author ADD COLUMN born date", "CREATE INDEX author_born ON author (born)"))
            && step("default", script("ALTER TABLE book ADD COLUMN stock integer NOT NULL DEFAULT 0"))
            && step("widen", script("ALTER TABLE book ALTER COLUMN title TYPE varchar(200)"));
    }

    public static void main(String[] args) throws Exception {
        url = args[1];
        bulk = Integer.parseInt(args[2]);
        rows = Integer.parseInt(args[3]);
        writers = Integer.parseInt(args[4]);
        transactions = Integer.parseInt(args[5]);
        Driver driver = DriverManager.getDriver(url);
        System.out.println("tool " + driver.getMajorVersion() + "." + driver.getMinorVersion());
        switch (args[0]) {
            case "up" -> up();
            case "down" -> step("down", script("DROP TABLE entry, counter, item, book, author"));
            default -> {
                step("crud", Run::crud);
                step("relations", Run::relations);
                step("nested", Run::nested);
                step("bulk", Run::bulk);
                step("batches", Run::batches);
                step("stream", Run::stream);
                step("writers", Run::writers);
                step("enum", Run::enumeration);
            }
        }
    }
}
