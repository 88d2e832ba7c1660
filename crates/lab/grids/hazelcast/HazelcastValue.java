import com.hazelcast.nio.serialization.compact.CompactReader;
import com.hazelcast.nio.serialization.compact.CompactSerializer;
import com.hazelcast.nio.serialization.compact.CompactWriter;

/** A structured value in Hazelcast's compact form. */
final class HazelcastValue implements CompactSerializer<Structured> {
    @Override
    public String getTypeName() {
        return "value";
    }

    @Override
    public Class<Structured> getCompactClass() {
        return Structured.class;
    }

    @Override
    public void write(CompactWriter out, Structured value) {
        out.writeInt64("id", value.id);
        out.writeInt64("version", value.version);
        out.writeBoolean("active", value.active);
        out.writeString("status", value.status);
        out.writeInt64("price", value.price);
        out.writeFloat64("weight", value.weight);
        out.writeTimestamp("opened", value.opened);
        out.writeArrayOfInt32("positions", value.positions);
        out.writeString("holders", value.holders);
        out.writeString("note", value.note);
    }

    @Override
    public Structured read(CompactReader in) {
        Structured value = new Structured();
        value.id = in.readInt64("id");
        value.version = in.readInt64("version");
        value.active = in.readBoolean("active");
        value.status = in.readString("status");
        value.price = in.readInt64("price");
        value.weight = in.readFloat64("weight");
        value.opened = in.readTimestamp("opened");
        value.positions = in.readArrayOfInt32("positions");
        value.holders = in.readString("holders");
        value.note = in.readString("note");
        return value;
    }
}
