import com.hazelcast.nio.serialization.compact.CompactReader;
import com.hazelcast.nio.serialization.compact.CompactSerializer;
import com.hazelcast.nio.serialization.compact.CompactWriter;

/**
 * The columns of a row besides its id. Public with a property for each, for Hazelcast's SQL finds them by reflection; kept in its compact
 * form, of which one field can be read without the others.
 */
public final class Row {
    private long value;
    private String label;
    private int[] numbers;

    public Row() {}

    Row(long value, String label, int[] numbers) {
        this.value = value;
        this.label = label;
        this.numbers = numbers;
    }

    public long getValue() {
        return value;
    }

    public void setValue(long value) {
        this.value = value;
    }

    public String getLabel() {
        return label;
    }

    public void setLabel(String label) {
        this.label = label;
    }

    public int[] getNumbers() {
        return numbers;
    }

    public void setNumbers(int[] numbers) {
        this.numbers = numbers;
    }

    /** Member and client have it registered. */
    static final class Serializer implements CompactSerializer<Row> {
        @Override
        public Row read(CompactReader reader) {
            return new Row(reader.readInt64("value"), reader.readString("label"), reader.readArrayOfInt32("numbers"));
        }

        @Override
        public void write(CompactWriter writer, Row row) {
            writer.writeInt64("value", row.value);
            writer.writeString("label", row.label);
            writer.writeArrayOfInt32("numbers", row.numbers);
        }

        @Override
        public String getTypeName() {
            return "row";
        }

        @Override
        public Class<Row> getCompactClass() {
            return Row.class;
        }
    }
}
