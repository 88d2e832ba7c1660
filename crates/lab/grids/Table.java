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

        /** How many rows there are, or how many keys. */
        long count(boolean keys) throws Exception;

        /** How many rows have a {@code value} below this. */
        long countBelow(long value) throws Exception;

        /** The sum of {@link Documents#SUMMED} over all documents; whether the field is named by a parameter. */
        long sumOfDocuments(boolean byParameter) throws Exception;

        /** The columns {@code id} and {@code value} of the rows that have this label. */
        void labelled(String label, Sink sink) throws Exception;

        /** All columns of the rows whose {@code value} is from {@code low} to {@code high}. */
        void valueRange(long low, long high, Sink sink) throws Exception;

        /** Both maps by the keys of the larger one: how many rows that are, and the sum of {@code amount} and {@code value}. */
        long[] join() throws Exception;
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
            case "sql-count":
                return new Count(plan, numbers);
            case "sql-json-sum":
                return new JsonSum(plan);
            case "sql-value":
                return new Value(plan, numbers);
            case "query-range":
                return new ValueRange(plan, numbers);
            case "sql-join":
                return new Join(plan);
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

    /** Counts the rows that came, and sums up a column of those that were asked for. */
    private abstract static class Counter extends Reader implements Sink {
        long first;
        long end;
        private long count;
        private long sum;

        abstract void ask() throws Exception;

        /** How many rows from {@link #first} to before {@link #end} there are. */
        abstract long expectedRows();

        /** Their sum. */
        abstract long expectedSum();

        @Override
        public void call() throws Exception {
            count = 0;
            sum = 0;
            ask();
        }

        /** What was asked for is the first of both. */
        @Override
        public void row(long asked, long summed) {
            count++;
            sum += asked >= first && asked < end ? summed : Long.MIN_VALUE >> 32;
        }

        @Override
        public String judge() {
            return count == expectedRows() && sum == expectedSum()
                    ? null
                    : count + " rows with the sum " + sum + " instead of " + expectedRows() + " with " + expectedSum();
        }
    }

    /** Of ids. */
    private abstract static class IdCounter extends Counter {
        private final Rows rows;

        IdCounter(Plan plan) {
            rows = plan.rows();
        }

        @Override
        long expectedRows() {
            return end - first;
        }

        @Override
        long expectedSum() {
            return rows.between(first, end);
        }
    }

    private final class Range extends IdCounter {
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

    private final class Fetch extends IdCounter {
        Fetch(Plan plan) {
            super(plan);
            end = plan.integer("rows");
        }

        @Override
        void ask() throws Exception {
            table.fetch(this);
        }
    }

    private final class Value extends Counter {
        private final Numbers numbers;
        private final Choice choice;
        private String label;

        Value(Plan plan, Numbers numbers) {
            this.numbers = numbers;
            choice = plan.choice(plan.integer("rows"));
        }

        @Override
        public void make() {
            first = choice.next(numbers);
            end = first + 1;
            label = Rows.label(first, 0);
        }

        @Override
        void ask() throws Exception {
            table.labelled(label, this);
        }

        @Override
        long expectedRows() {
            return 1;
        }

        @Override
        long expectedSum() {
            return Rows.value(first);
        }
    }

    private final class ValueRange extends Counter {
        private final Numbers numbers;
        private final ByValue byValue;
        private final long rows;
        private final long length;

        ValueRange(Plan plan, Numbers numbers) {
            this.numbers = numbers;
            byValue = plan.byValue();
            rows = plan.integer("rows");
            length = plan.integer("range_rows");
        }

        @Override
        public void make() {
            long place = numbers.below(rows - length + 1);
            first = byValue.at(place);
            end = byValue.at(place + length - 1) + 1;
        }

        @Override
        void ask() throws Exception {
            table.valueRange(first, end - 1, this);
        }

        @Override
        long expectedRows() {
            return byValue.rows(first, end);
        }

        @Override
        long expectedSum() {
            return byValue.ids(first, end);
        }
    }

    private final class Count extends Reader {
        private final Numbers numbers;
        private final boolean keys;
        /** None where all rows are counted. */
        private final ByValue byValue;
        private final long rows;
        private long end;
        private long found;

        Count(Plan plan, Numbers numbers) {
            this.numbers = numbers;
            keys = plan.is("counted", "keys");
            byValue = plan.is("counted", "matching") ? plan.byValue() : null;
            rows = plan.integer("rows");
        }

        @Override
        public void make() {
            if (byValue != null) {
                end = ByValue.VALUES / 4 + numbers.below(ByValue.VALUES / 2);
            }
        }

        @Override
        public void call() throws Exception {
            found = byValue == null ? table.count(keys) : table.countBelow(end);
        }

        @Override
        public String judge() {
            long expected = byValue == null ? rows : byValue.rows(0, end);
            return found == expected ? null : found + " rows are counted instead of " + expected;
        }
    }

    private final class JsonSum extends Reader {
        private final boolean byParameter;
        private final long expected;
        private long found;

        JsonSum(Plan plan) {
            byParameter = plan.is("field", "parameter");
            expected = plan.rows().between(0, plan.integer("rows"));
        }

        @Override
        public void call() throws Exception {
            found = table.sumOfDocuments(byParameter);
        }

        @Override
        public String judge() {
            return found == expected ? null : "the sum is " + found + " instead of " + expected;
        }
    }

    private final class Join extends Reader {
        private final long rows;
        private final long expected;
        private long[] found;

        Join(Plan plan) {
            rows = plan.integer("join_rows");
            expected = Rows.joined(rows, plan.integer("rows"));
        }

        @Override
        public void call() throws Exception {
            found = table.join();
        }

        @Override
        public String judge() {
            return found[0] == rows && found[1] == expected
                    ? null
                    : found[0] + " joined rows with the sum " + found[1] + " instead of " + rows + " with " + expected;
        }
    }
}
