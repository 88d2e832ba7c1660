import com.hazelcast.aggregation.Aggregators;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.map.EntryProcessor;
import com.hazelcast.projection.Projections;
import com.hazelcast.query.Predicates;
import java.util.List;
import java.util.Map;

/** Hazelcast's methods of a map: predicates, projections, aggregations, and for one row its key. */
final class HazelcastPredicates extends HazelcastRows {
    HazelcastPredicates(HazelcastInstance client) {
        super(client);
    }

    @Override
    List<String> declare(Plan plan) {
        return List.of();
    }

    @Override
    public Table.One key(long id) {
        Row row = rows.get(id);
        return row == null ? null : new Table.One(row.getValue(), row.getLabel());
    }

    @Override
    public void update(long id, long value, String label) {
        if (!Boolean.TRUE.equals(rows.executeOnKey(id, new Change(value, label)))) {
            throw new IllegalStateException("id " + id + " is not there");
        }
    }

    @Override
    public long sum() {
        return rows.aggregate(Aggregators.longSum("value"));
    }

    @Override
    public void range(long first, long last, Table.Sink sink) {
        for (Object[] row : rows.project(Projections.multiAttribute("__key", "value"), Predicates.between("__key", first, last))) {
            sink.row((Long) row[0], (Long) row[1]);
        }
    }

    @Override
    public void fetch(Table.Sink sink) {
        for (Map.Entry<Long, Row> entry : rows.entrySet()) {
            sink.row(entry.getKey(), entry.getValue().getValue());
        }
    }

    @Override
    public long count(boolean keys) {
        return rows.aggregate(keys ? Aggregators.count("__key") : Aggregators.count());
    }

    @Override
    public long countBelow(long value) {
        return rows.aggregate(Aggregators.count(), Predicates.lessThan("value", value));
    }

    @Override
    public long sumOfDocuments(boolean byParameter) {
        // A field is an argument in either case.
        return documents.aggregate(Aggregators.longSum(Documents.SUMMED));
    }

    @Override
    public void labelled(String label, Table.Sink sink) {
        for (Object[] row : rows.project(Projections.multiAttribute("__key", "value"), Predicates.equal("label", label))) {
            sink.row((Long) row[0], (Long) row[1]);
        }
    }

    @Override
    public void valueRange(long low, long high, Table.Sink sink) {
        for (Map.Entry<Long, Row> entry : rows.entrySet(Predicates.between("value", low, high))) {
            sink.row(entry.getValue().getValue(), entry.getKey());
        }
    }

    @Override
    public long[] join() {
        throw new UnsupportedOperationException("a predicate is about one map");
    }

    /** Changes two columns where the row lies. */
    static final class Change implements EntryProcessor<Long, Row, Boolean> {
        private static final long serialVersionUID = 1;

        private final long value;
        private final String label;

        Change(long value, String label) {
            this.value = value;
            this.label = label;
        }

        @Override
        public Boolean process(Map.Entry<Long, Row> entry) {
            Row row = entry.getValue();
            if (row == null) {
                return false;
            }
            row.setValue(value);
            row.setLabel(label);
            entry.setValue(row);
            return true;
        }
    }
}
