import java.lang.management.BufferPoolMXBean;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;

/**
 * What a member's data takes: what a full collection leaves in the heap. The resident size of a JVM says more about the heap
 * it was given than about what lies in it.
 */
final class Heap {
    /** Collections until the figure stands still: references and queues may need more than one. */
    private static final int COLLECTIONS_MAX = 10;

    private Heap() {}

    /**
     * The commands of a member: {@code heap}, answered with bytes, {@code metrics}, with what its JVM counts, {@code version}, and {@code port}, on which
     * it listens.
     */
    static String answer(String version, int port, String[] words) {
        switch (words[0]) {
            case "heap":
                return Long.toString(live());
            case "metrics":
                return counts();
            case "version":
                return version;
            case "port":
                return Integer.toString(port);
            default:
                throw new IllegalArgumentException("a member knows four commands: heap, metrics, version, port");
        }
    }

    /** Since the start of the JVM, or at this moment: {@code name=value}, separated by spaces. Nothing is collected for it. */
    private static String counts() {
        StringBuilder text = new StringBuilder("jvm_uptime_ms=" + ManagementFactory.getRuntimeMXBean().getUptime());
        text.append(" jvm_threads=").append(ManagementFactory.getThreadMXBean().getThreadCount());
        text.append(" jvm_classes_loaded=").append(ManagementFactory.getClassLoadingMXBean().getTotalLoadedClassCount());
        text.append(" jvm_compilation_ms=").append(ManagementFactory.getCompilationMXBean().getTotalCompilationTime());
        text.append(" jvm_heap_used_bytes=").append(ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed());
        text.append(" jvm_heap_committed_bytes=").append(ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getCommitted());
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            String name = "jvm_collector_" + collector.getName().replace(' ', '_');
            text.append(' ').append(name).append("_count=").append(collector.getCollectionCount());
            text.append(' ').append(name).append("_ms=").append(collector.getCollectionTime());
        }
        for (BufferPoolMXBean pool : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class)) {
            String name = "jvm_buffers_" + pool.getName().replace(' ', '_').replace("'", "");
            text.append(' ').append(name).append("_bytes=").append(pool.getMemoryUsed());
        }
        return text.toString();
    }

    private static long live() {
        long before = collected();
        for (int collection = 1; collection < COLLECTIONS_MAX; collection++) {
            long now = collected();
            if (Math.abs(before - now) * 1000 < now) {
                return now;
            }
            before = now;
        }
        return before;
    }

    /** The pools' use at the end of the collection. Their use now would count the buffers that threads allocate from. */
    private static long collected() {
        System.gc();
        long used = 0;
        for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
            if (pool.getType() == MemoryType.HEAP && pool.getCollectionUsage() != null) {
                used += pool.getCollectionUsage().getUsed();
            }
        }
        return used;
    }
}
