import java.util.Map;

/**
 * A client that the lab tells what to do, in the commands of {@link Lines}.
 *
 * <pre>
 * version                              answers the version of the client's library and of Java
 * workload NAME SIZE=NUMBER ...        what is asked about from now on
 * prepare                              puts the data there; says "at DONE ALL" now and then, and "set TEXT" of what it declared
 * step NAME                            does a step of a workload that has some; says "at DONE ALL"; answers how many entries it wrote
 * fault                                answers what is not there that the steps wrote, or nothing
 * measure threads=8 rate=0 warm_up=1 measured=5 seed=1 repetition=1 stores=true
 *                                      one measurement, see {@link Measurement}; a rate of 0 is a closed loop
 * </pre>
 */
final class Lab implements Lines.Commands {
    private final Lines lines;
    private final Product product;
    private Plan plan;
    private volatile Measurement measurement;

    Lab(Lines lines, Product product) {
        this.lines = lines;
        this.product = product;
    }

    @Override
    public String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "version":
                return product.version() + ", Java " + Runtime.version();
            case "workload":
                plan = new Plan(words);
                return "";
            case "prepare":
                for (String declared : product.prepare(plan, (done, all) -> lines.say("at " + done + " " + all))) {
                    lines.say("set " + declared);
                }
                return "";
            case "step":
                return Long.toString(product.step(plan, words[1], (done, all) -> lines.say("at " + done + " " + all)));
            case "fault":
                String fault = product.fault(plan);
                return fault == null ? "" : fault;
            case "measure":
                Map<String, String> how = Plan.named(words, 1);
                measurement = new Measurement(lines, how);
                measurement.run(product, plan);
                return "";
            default:
                throw new IllegalArgumentException("unknown command: " + words[0]);
        }
    }

    @Override
    public void stop() {
        Measurement running = measurement;
        if (running != null) {
            running.stop();
        }
    }
}
