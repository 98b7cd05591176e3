import java.sql.*;
import java.util.Random;

/** JDBC, in the manner of Hibernate: the key of an INSERT is returned, and counters are shared. */
public class Contend {
    static final String[] KINDS = {"add", "add", "add", "load", "nested"};

    static void transaction(Connection c, String label, String kind, int counter) throws SQLException {
        String before = "-", line;
        try {
            long key;
            try (PreparedStatement st = c.prepareStatement("insert into entry (label) values (?)", Statement.RETURN_GENERATED_KEYS)) {
                st.setString(1, label);
                st.executeUpdate();
                ResultSet keys = st.getGeneratedKeys();
                keys.next();
                key = keys.getLong("id");
            }
            if (kind.equals("nested")) {
                Savepoint nested = c.setSavepoint();
                try (PreparedStatement st = c.prepareStatement("insert into tag (name) values (?)")) {
                    st.setString(1, "taken");
                    st.executeUpdate();
                    c.releaseSavepoint(nested);
                } catch (SQLException e) {
                    if (!e.getSQLState().equals("23505")) throw e;
                    c.rollback(nested);
                }
            }
            if (kind.equals("load")) {
                int n;
                try (PreparedStatement st = c.prepareStatement("select c.id, c.n from counter c where c.id = ?")) {
                    st.setInt(1, counter);
                    ResultSet rows = st.executeQuery();
                    rows.next();
                    n = rows.getInt(2);
                }
                before = "" + n;
                try (PreparedStatement st = c.prepareStatement("update counter set n = ? where id = ?")) {
                    st.setInt(1, n + 1);
                    st.setInt(2, counter);
                    st.executeUpdate();
                }
            } else {
                try (PreparedStatement st = c.prepareStatement("update counter set n = n + 1 where id = ?")) {
                    st.setInt(1, counter);
                    st.executeUpdate();
                }
            }
            c.commit();
            line = "committed " + kind + " " + key + " " + counter + " " + before;
        } catch (SQLException e) {
            c.rollback();
            String detail = e.getMessage();
            if (e instanceof org.postgresql.util.PSQLException p && p.getServerErrorMessage() != null) detail = p.getServerErrorMessage().getDetail();
            line = "refused " + kind + " " + e.getSQLState() + " " + counter + " " + before + " " + ("" + detail).replace('\n', ' ');
        }
        synchronized (KINDS) {
            System.out.println(line);
        }
    }

    public static void main(String[] args) throws Exception {
        int writers = Integer.parseInt(args[1]), transactions = Integer.parseInt(args[2]), counters = Integer.parseInt(args[3]);
        Thread[] threads = new Thread[writers];
        for (int n = 0; n < writers; n++) {
            int number = n;
            threads[n] = new Thread(() -> {
                Random r = new Random(number);
                try (Connection c = DriverManager.getConnection(args[0])) {
                    c.setAutoCommit(false);
                    for (int i = number; i < transactions; i += writers)
                        transaction(c, "e" + i, KINDS[r.nextInt(KINDS.length)], 1 + r.nextInt(counters));
                } catch (SQLException e) {
                    System.err.println(e);
                }
            });
            threads[n].start();
        }
        for (Thread t : threads) t.join();
    }
}
