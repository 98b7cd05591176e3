import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/** Runs the statements of its arguments behind the first, which is a URL, in one transaction. */
public class Choose {
    public static void main(String[] args) throws SQLException {
        try (Connection c = DriverManager.getConnection(args[0]); Statement s = c.createStatement()) {
            c.setAutoCommit(false);
            for (int i = 1; i < args.length; i++) {
                if (s.execute(args[i])) {
                    try (ResultSet rows = s.getResultSet()) {
                        while (rows.next()) {
                            System.out.println(rows.getString(1));
                        }
                    }
                }
            }
            c.commit();
        }
    }
}
