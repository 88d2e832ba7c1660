/** The workloads over rows, the requests of {@code crates/lab/src/workload/sql.rs}, through any interface that a product has for them. */
final class Table implements Product {
    /** Told of the rows of an answer, one by one. */
    interface Sink {
        void row(long id, long value);
    }

    /** What an interface can be asked. Threads share it. */
    interface Interface {
        /** Puts all rows there. Answers what was declared. */
        String[] prepare(Plan plan, Product.Progress progress) throws Exception;

        /** The columns {@code value} and {@code label} of a row; null if there is none. */
        One key(long id) throws Exception;

        /** Changes both columns of a row. */
        void update(long id, long value, String label) throws Exception;

        /** The sum of {@code value} over all rows. */
        long sum() throws Exception;

        /** The columns {@code id} and {@code value} of the rows from {@code first} to {@code last}. */
        void range(long first, long last, Sink sink) throws Exception;

        /** All columns of all rows. */
        void fetch(Sink sink) throws Exception;
    }

    /** Two columns of one row. */
    static final class One {
        final long value;
        final String label;

        One(long value, String label) {
            this.value = value;
            this.label = label;
        }
    }

    private final String version;
    private final Interface table;

    Table(String version, Interface table) {
        this.version = version;
        this.table = table;
    }

    @Override
    public String version() {
        return version;
    }

    @Override
    public String[] prepare(Plan plan, Progress progress) throws Exception {
        return table.prepare(plan, progress);
    }

    @Override
    public Caller caller(Plan plan, Numbers numbers) {
        switch (plan.workload) {
            case "sql-key":
                return new Key(plan, numbers);
            case "sql-update":
                return new Update(plan, numbers);
            case "sql-sum":
                return new Sum(plan);
            case "sql-range":
                return new Range(plan, numbers);
            case "sql-fetch":
                return new Fetch(plan);
            default:
                throw new IllegalArgumentException("no workload over rows: " + plan.workload);
        }
    }

    private abstract static class Reader implements Caller {
        @Override
        public void make() {}

        @Override
        public String readBack() throws Exception {
            return null;
        }
    }

    private final class Key extends Reader {
        private final Numbers numbers;
        private final Choice choice;
        private long id;
        private One found;

        Key(Plan plan, Numbers numbers) {
            this.numbers = numbers;
            choice = plan.choice(plan.integer("rows"));
        }

        @Override
        public void make() {
            id = choice.next(numbers);
        }

        @Override
        public void call() throws Exception {
            found = table.key(id);
        }

        @Override
        public String judge() {
            boolean right = found != null && found.value == Rows.value(id) && Rows.label(id, 0).equals(found.label);
            return right ? null : "id " + id + ": no row, or one that is not its own";
        }
    }

    private final class Update implements Caller {
        private final Numbers numbers;
        private final Choice choice;
        private long id;
        private long value;
        private String label;

        Update(Plan plan, Numbers numbers) {
            this.numbers = numbers;
            choice = plan.choice(plan.integer("rows"));
        }

        @Override
        public void make() {
            id = choice.next(numbers);
            value = numbers.below(1 << 20);
            // An odd number is not the version that was loaded.
            label = Rows.label(id, (int) numbers.next() | 1);
        }

        @Override
        public void call() throws Exception {
            table.update(id, value, label);
        }

        @Override
        public String judge() {
            return null;
        }

        @Override
        public String readBack() throws Exception {
            if (label == null) {
                return null;
            }
            One back = table.key(id);
            if (back != null && Rows.label(id, 0).equals(back.label)) {
                // Another thread may have changed it since, but nobody has put the first label back.
                return "id " + id + " is as it was loaded, and what was written later is gone";
            }
            boolean right = back != null && back.label != null && back.label.startsWith(Rows.labelHead(id));
            return right ? null : "id " + id + ", which was written: no row, or one that is not its own";
        }
    }

    private final class Sum extends Reader {
        private final long expected;
        private long found;

        Sum(Plan plan) {
            expected = plan.rows().between(0, plan.integer("rows"));
        }

        @Override
        public void call() throws Exception {
            found = table.sum();
        }

        @Override
        public String judge() {
            return found == expected ? null : "the sum is " + found + " instead of " + expected;
        }
    }

    /** Counts and sums the rows that were asked for. */
    private abstract static class Counter extends Reader implements Sink {
        private final Rows rows;
        long first;
        long end;
        private long count;
        private long sum;

        Counter(Plan plan) {
            rows = plan.rows();
        }

        abstract void ask() throws Exception;

        @Override
        public void call() throws Exception {
            count = 0;
            sum = 0;
            ask();
        }

        @Override
        public void row(long id, long value) {
            count++;
            sum += id >= first && id < end ? value : Long.MIN_VALUE >> 32;
        }

        @Override
        public String judge() {
            long expected = rows.between(first, end);
            return count == end - first && sum == expected
                    ? null
                    : count + " rows with the sum " + sum + " instead of " + (end - first) + " with " + expected;
        }
    }

    private final class Range extends Counter {
        private final Numbers numbers;
        private final long rows;
        private final long length;

        Range(Plan plan, Numbers numbers) {
            super(plan);
            this.numbers = numbers;
            rows = plan.integer("rows");
            length = plan.integer("range_rows");
        }

        @Override
        public void make() {
            first = numbers.below(rows - length + 1);
            end = first + length;
        }

        @Override
        void ask() throws Exception {
            table.range(first, end - 1, this);
        }
    }

    private final class Fetch extends Counter {
        Fetch(Plan plan) {
            super(plan);
            end = plan.integer("rows");
        }

        @Override
        void ask() throws Exception {
            table.fetch(this);
        }
    }
}
