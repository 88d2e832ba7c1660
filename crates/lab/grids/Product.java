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

    /** A caller for one thread. */
    Caller caller(Plan plan, Numbers numbers) throws Exception;
}
