import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.zip.CRC32;

/**
 * Threads load and change tables of an H2 database in the memory of this process, and query them
 * until the input ends. Then the program prints the contents of all tables, which depend only on
 * the arguments, because additions commute.
 *
 * <pre>Load ROWS THREADS</pre>
 */
public class Load {
    static final String URL = "jdbc:h2:mem:load;DB_CLOSE_DELAY=-1;LOCK_TIMEOUT=600000";
    static final int ACCOUNTS = 500;
    static final int TRANSFERS = 400;

    static volatile boolean isOver;

    interface Work {
        void run(Connection connection, int thread) throws Exception;
    }

    static List<Thread> begin(int threads, Work work) {
        List<Thread> begun = new ArrayList<>();
        for (int nth = 0; nth < threads; nth++) {
            int thread = nth;
            begun.add(new Thread(() -> {
                try (Connection connection = DriverManager.getConnection(URL)) {
                    work.run(connection, thread);
                } catch (Throwable error) {
                    error.printStackTrace();
                    System.exit(3);
                }
            }, "load-" + nth));
        }
        begun.forEach(Thread::start);
        return begun;
    }

    static void end(List<Thread> begun) throws InterruptedException {
        for (Thread thread : begun) thread.join();
    }

    static String text(Random random, int row) {
        return ("row " + row + " ").repeat(1 + random.nextInt(20));
    }

    static void insert(Connection connection, int thread, int rows) throws SQLException {
        Random random = new Random(thread);
        connection.setAutoCommit(false);
        String line = "insert into item values (?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(line)) {
            for (int nth = 0; nth < rows; nth++) {
                int row = thread * rows + nth;
                statement.setInt(1, row);
                statement.setInt(2, random.nextInt(1000));
                statement.setString(3, text(random, row));
                statement.addBatch();
                if (nth % 100 == 99) {
                    statement.executeBatch();
                    connection.commit();
                }
            }
            statement.executeBatch();
        }
        connection.commit();
    }

    static void transfer(Connection connection, int thread) throws SQLException {
        Random random = new Random(1000 + thread);
        connection.setAutoCommit(false);
        String line = "update account set amount = amount + ? where id = ?";
        try (PreparedStatement statement = connection.prepareStatement(line)) {
            for (int nth = 0; nth < TRANSFERS; nth++) {
                int from = random.nextInt(ACCOUNTS), to = random.nextInt(ACCOUNTS);
                int amount = random.nextInt(100);
                while (!change(connection, statement, from, to, amount)) connection.rollback();
                connection.commit();
            }
        }
    }

    /** Returns false if another transaction changed an account at the same time. */
    static boolean change(Connection connection, PreparedStatement statement, int from, int to,
            int amount) throws SQLException {
        try {
            for (int[] half : new int[][] {{from, -amount}, {to, amount}}) {
                statement.setInt(1, half[1]);
                statement.setInt(2, half[0]);
                statement.executeUpdate();
            }
            return true;
        } catch (SQLException error) {
            if (error.getSQLState().startsWith("40")) return false;
            throw error;
        }
    }

    /** Queries parts of the tables. The sum of all accounts is zero at any time. */
    static void query(Connection connection, int thread, int count) throws SQLException {
        Random random = new Random(2000 + thread);
        for (int nth = 0; nth < count || (count == 0 && !isOver); nth++) {
            if (number(connection, "select sum(amount) from account") != 0)
                throw new IllegalStateException("an amount is missing");
            number(connection, "select count(*) from item where k = " + random.nextInt(1000));
            number(connection, "select max(length(text)) from item a join account b on a.k = b.id"
                + " where a.id % 97 = " + random.nextInt(97));
        }
    }

    static long number(Connection connection, String line) throws SQLException {
        try (ResultSet rows = connection.createStatement().executeQuery(line)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    static void show(Connection connection, String line) throws SQLException {
        CRC32 sum = new CRC32();
        long count = 0;
        try (ResultSet rows = connection.createStatement().executeQuery(line)) {
            int columns = rows.getMetaData().getColumnCount();
            for (; rows.next(); count++)
                for (int nth = 1; nth <= columns; nth++)
                    sum.update((rows.getString(nth) + "|").getBytes());
        }
        System.out.println(line + ": " + count + " rows, " + Long.toHexString(sum.getValue()));
    }

    public static void main(String[] args) throws Exception {
        int rows = Integer.parseInt(args[0]), threads = Integer.parseInt(args[1]);
        try (Connection connection = DriverManager.getConnection(URL)) {
            var statement = connection.createStatement();
            statement.execute("create table item(id int primary key, k int, text varchar)");
            statement.execute("create index on item(k)");
            statement.execute("create table account(id int primary key, amount bigint)");
            statement.execute("insert into account select x, 0 from system_range(0, 499)");
            System.out.println("begun");
            end(begin(threads, (of, thread) -> insert(of, thread, rows)));
            end(begin(threads, Load::transfer));
            System.out.println("loaded");
            List<Thread> queries = begin(threads, (of, thread) -> query(of, thread, 0));
            while (System.in.read() >= 0);
            isOver = true;
            end(queries);
            statement.execute("update item set text = text || k where id % 5 = 0");
            statement.execute("delete from item where k % 7 = 3");
            show(connection, "select * from account order by id");
            show(connection, "select * from item order by id");
            show(connection, "select k, count(*), max(text) from item group by k order by k");
            show(connection, "select a.id, b.amount from item a join account b on a.k = b.id"
                + " order by b.amount, a.id");
        }
    }
}
