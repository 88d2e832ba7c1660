/** What a product's client is loaded with. */
interface Product {
    /** Told how many of all keys or rows are there. */
    interface Progress {
        void at(long done, long all);
    }

    /** The version of the client. */
    String version();

    /** Puts the data of a workload there, and tells now and then how far it is. Answers what it declared besides. */
    String[] prepare(Plan plan, Progress progress) throws Exception;

    /** Does one of the steps of a workload that has steps; answers how many entries it wrote. */
    default long step(Plan plan, String name, Progress progress) throws Exception {
        throw new IllegalArgumentException(plan.workload + " has no steps here");
    }

    /** Says what is not there that all steps up to now wrote; null if all is. */
    default String fault(Plan plan) throws Exception {
        throw new IllegalArgumentException(plan.workload + " has no steps here");
    }

    /** A caller for one thread. */
    Caller caller(Plan plan, Numbers numbers) throws Exception;
}
