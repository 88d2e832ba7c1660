import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.protocol.ProtocolVersion;

/** Lettuce, told what to do by the lab, at the RESP server of the host and port given. All threads share one connection. */
final class LettuceLab {
    private LettuceLab() {}

    public static void main(String[] arguments) throws Exception {
        Lines lines = new Lines();
        RedisClient client = RedisClient.create(RedisURI.create(arguments[0], Integer.parseInt(arguments[1])));
        client.setOptions(ClientOptions.builder()
                // As threads of the lab speak, and nothing before the first command.
                .protocolVersion(ProtocolVersion.RESP2)
                .pingBeforeActivateConnection(false)
                // A server that is gone ends the measurement; waiting for it would not.
                .autoReconnect(false)
                .build());
        String version = "lettuce " + RedisClient.class.getPackage().getImplementationVersion();
        lines.serve(new Lab(lines, new Entries(version, new LettuceLoad(client.connect(ByteArrayCodec.INSTANCE)))));
        client.shutdown();
        System.exit(0);
    }
}
