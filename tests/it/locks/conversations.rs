//! What sessions say to each other about rows: each conversation is had with a real PostgreSQL and with Ashlar, and must be
//! the same. `1: statement` is run by session 1, `1& statement` begins and has to wait, `1.` brings its answer.
//!
//! Who of several that wait for one row has it first once it has changed is open in PostgreSQL: it lets the place in its queue
//! go before it looks for the row's new version, and locks that even where the condition no longer holds. So no answer may be
//! waited for while another one of them is in a block that is still open.

/// Before each conversation.
pub(super) const SETUP: &str = "
    0: DROP TABLE IF EXISTS lk, lk_other, lk_bare
    0: CREATE TABLE lk (id integer PRIMARY KEY, v integer, t text)
    0: INSERT INTO lk SELECT i, i * 10, 'row ' || i FROM generate_series(1, 6) AS g (i)
    0: CREATE TABLE lk_other (id integer PRIMARY KEY, lk integer)
    0: INSERT INTO lk_other VALUES (1, 1), (2, 2), (7, NULL)
    0: CREATE TABLE lk_bare (n integer)
    0: INSERT INTO lk_bare VALUES (1), (2), (3)";

/// Title and conversation.
pub(super) const ALL: &[(&str, &str)] = &[
    (
        "advisory locks are of a session, or of its transaction",
        "
        1: SELECT pg_advisory_lock(90210)
        1: SELECT pg_try_advisory_lock(90210)
        2: SELECT pg_try_advisory_lock(90210)
        2: SELECT pg_try_advisory_lock_shared(90210)
        2: SELECT pg_try_advisory_lock(0, 90210)
        1: SELECT pg_advisory_unlock(90210)
        2: SELECT pg_try_advisory_lock(90210)
        1: SELECT pg_advisory_unlock(90210), pg_advisory_unlock(90210) AS again
        2: SELECT pg_try_advisory_lock_shared(90210)
        1: SELECT pg_try_advisory_lock_shared(90210)
        1: SELECT pg_try_advisory_lock(90210)
        2: SELECT pg_advisory_unlock_shared(90210)
        1: SELECT pg_try_advisory_lock(90210)
        1: SELECT pg_advisory_unlock_all()
        2: BEGIN
        2: SELECT pg_advisory_xact_lock(90210), pg_advisory_xact_lock_shared(90211)
        2: SAVEPOINT s
        2: SELECT pg_try_advisory_xact_lock(90212)
        2: SELECT pg_advisory_unlock(90212)
        1: SELECT pg_try_advisory_lock(90212)
        2: ROLLBACK TO s
        1: SELECT pg_try_advisory_lock(90212)
        1: SELECT pg_try_advisory_lock(90210), pg_try_advisory_lock_shared(90211), pg_try_advisory_lock(90211)
        2: COMMIT
        1: SELECT pg_try_advisory_lock(90210), pg_try_advisory_lock(90211)
        3: SELECT pg_try_advisory_xact_lock(90213)
        1: SELECT pg_try_advisory_lock(90213)
        3: BEGIN
        3: SELECT pg_advisory_xact_lock(90214), pg_advisory_lock(90215)
        3: SELECT 1 / 0
        1: SELECT pg_try_advisory_lock(90214), pg_try_advisory_lock(90215)
        3: ROLLBACK
        3: SELECT pg_advisory_unlock(90215)
        1: SELECT pg_try_advisory_lock(90215)
        1: SELECT pg_advisory_lock(hashtext('a migration')), pg_try_advisory_lock(hashtext('another'), 1)
        2: SELECT pg_try_advisory_lock(-1) AS other, pg_try_advisory_lock(hashtext('a migration'))
        2: SELECT pg_try_advisory_lock(hashtextextended('a migration', 0)), pg_try_advisory_xact_lock(hashtext(NULL))
        1: DISCARD ALL
        2: SELECT pg_try_advisory_lock(-90215), pg_advisory_lock(NULL), pg_sleep(0), pg_sleep(NULL)",
    ),
    (
        "the second writer waits, and goes on with what the first has written",
        "
        1: BEGIN
        1: UPDATE lk SET v = v + 1 WHERE id = 1
        2& UPDATE lk SET v = v + 100 WHERE id = 1
        3& UPDATE lk SET v = v + 1000 WHERE id + 0 = 1 RETURNING id
        1: COMMIT
        2.
        3.
        1: SELECT v FROM lk WHERE id = 1
        1: BEGIN
        1: UPDATE lk SET v = 0 WHERE id = 1
        2: BEGIN
        2& UPDATE lk SET v = v + 7 WHERE id = 1 RETURNING *
        1: ROLLBACK
        2.
        3& DELETE FROM lk WHERE id = 1
        2: COMMIT
        3.
        1: SELECT id, v FROM lk ORDER BY id",
    ),
    (
        "what a lock returns is the newest row, and the condition is asked again",
        "
        1: BEGIN
        1: UPDATE lk SET v = 99 WHERE id = 2
        2: BEGIN
        2& SELECT id, v FROM lk WHERE id = 2 FOR UPDATE
        3& SELECT id, v FROM lk WHERE v = 20 FOR UPDATE
        1: COMMIT
        2.
        2: UPDATE lk SET v = v + 1 WHERE id = 2
        2: COMMIT
        3.
        1: BEGIN
        1: DELETE FROM lk WHERE id = 3
        2& SELECT id, v FROM lk WHERE id = 3 FOR SHARE
        3& SELECT id, v FROM lk WHERE id IN (3, 4) ORDER BY id FOR UPDATE
        1: COMMIT
        2.
        3.
        1: BEGIN
        1: UPDATE lk SET v = 0 WHERE id = 5
        2& UPDATE lk SET v = 1 WHERE v >= 50
        1: COMMIT
        2.
        1: SELECT id, v FROM lk ORDER BY id",
    ),
    (
        "repeatable read fails where the row has changed since its snapshot",
        "
        1: BEGIN ISOLATION LEVEL REPEATABLE READ
        1: SELECT v FROM lk WHERE id = 1
        2: UPDATE lk SET v = 11 WHERE id = 1
        1: SELECT v FROM lk WHERE id = 1 FOR UPDATE
        1: ROLLBACK
        1: BEGIN ISOLATION LEVEL REPEATABLE READ
        1: SELECT v FROM lk WHERE id = 1
        2: BEGIN
        2: UPDATE lk SET v = 12 WHERE id = 1
        1& UPDATE lk SET v = 13 WHERE id = 1
        2: COMMIT
        1.
        1: ROLLBACK
        1: BEGIN ISOLATION LEVEL REPEATABLE READ
        1: SELECT v FROM lk WHERE id = 1
        2: BEGIN
        2: UPDATE lk SET v = 14 WHERE id = 1
        1& SELECT v FROM lk WHERE v < 100 ORDER BY id FOR UPDATE
        2: ROLLBACK
        1.
        1: UPDATE lk SET v = v + 1
        1: COMMIT
        1: SELECT id, v FROM lk ORDER BY id",
    ),
    (
        "NOWAIT fails and SKIP LOCKED does without",
        "
        1: BEGIN
        1: SELECT id FROM lk WHERE id IN (1, 3) ORDER BY id FOR UPDATE
        2: SELECT id FROM lk WHERE id = 1 FOR UPDATE NOWAIT
        2: SELECT id FROM lk WHERE v > 0 FOR KEY SHARE NOWAIT
        2: SELECT id FROM lk WHERE id = 1 FOR UPDATE SKIP LOCKED
        2: SELECT id FROM lk ORDER BY id FOR UPDATE SKIP LOCKED
        2: SELECT id FROM lk ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED
        2: SELECT id FROM lk ORDER BY id LIMIT 2 OFFSET 1 FOR UPDATE SKIP LOCKED
        2: SELECT id FROM lk ORDER BY id DESC FETCH FIRST ROW ONLY FOR UPDATE SKIP LOCKED
        2: SELECT id FROM lk ORDER BY id LIMIT 0 FOR UPDATE
        2: SELECT id FROM lk ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED
        2: SELECT id FROM lk ORDER BY id LIMIT -1 FOR UPDATE SKIP LOCKED
        2: SELECT id FROM lk WHERE id = 17 FOR UPDATE NOWAIT
        2: BEGIN
        2: SELECT id FROM lk ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
        3: SELECT id FROM lk ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
        2: DELETE FROM lk WHERE id = 2
        2: COMMIT
        1: COMMIT
        3: SELECT id FROM lk ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED",
    ),
    (
        "the four strengths",
        "
        1: BEGIN
        1: SELECT id FROM lk WHERE id = 1 FOR KEY SHARE
        1: SELECT id FROM lk WHERE id = 2 FOR SHARE
        1: SELECT id FROM lk WHERE id = 3 FOR NO KEY UPDATE
        1: SELECT id FROM lk WHERE id = 4 FOR UPDATE
        1: UPDATE lk SET v = v WHERE id = 5
        1: DELETE FROM lk WHERE id = 6
        2: SELECT id FROM lk ORDER BY id FOR KEY SHARE SKIP LOCKED
        2: SELECT id FROM lk ORDER BY id FOR SHARE SKIP LOCKED
        2: SELECT id FROM lk ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
        2: SELECT id FROM lk ORDER BY id FOR UPDATE SKIP LOCKED
        2: UPDATE lk SET v = -1 WHERE id = 1
        2& UPDATE lk SET v = -2 WHERE id = 2
        3& DELETE FROM lk WHERE id = 1
        1: COMMIT
        2.
        3.
        1: BEGIN
        2: BEGIN
        1: SELECT id FROM lk WHERE id = 2 FOR SHARE
        2: SELECT id FROM lk WHERE id = 2 FOR SHARE
        1& UPDATE lk SET v = 5 WHERE id = 2
        2: COMMIT
        1.
        1: COMMIT
        1: SELECT id, v FROM lk ORDER BY id",
    ),
    (
        "several clauses, and tables that are named",
        "
        1: BEGIN
        1: SELECT l.id, o.id FROM lk l JOIN lk_other o ON o.lk = l.id ORDER BY 1 FOR UPDATE OF o
        2: SELECT id FROM lk ORDER BY id LIMIT 2 FOR UPDATE NOWAIT
        2: SELECT id FROM lk_other ORDER BY id FOR UPDATE SKIP LOCKED
        1: COMMIT
        1: BEGIN
        1: SELECT l.v, o.* FROM lk l, lk_other o WHERE o.lk = l.id AND l.id = 2 FOR SHARE OF l FOR UPDATE OF o
        2: SELECT id FROM lk WHERE id = 2 FOR SHARE NOWAIT
        2: SELECT id FROM lk WHERE id = 2 FOR UPDATE NOWAIT
        2: SELECT id FROM lk_other WHERE id = 2 FOR SHARE NOWAIT
        2: SELECT l.id FROM lk l LEFT JOIN lk_other o ON o.lk = l.id ORDER BY 1 LIMIT 1 FOR UPDATE OF l
        1: COMMIT
        1: BEGIN
        1: SELECT * FROM lk_bare WHERE n > 1 ORDER BY n FOR UPDATE
        2: SELECT n, n + 1 AS next FROM lk_bare ORDER BY n FOR UPDATE SKIP LOCKED
        2: SELECT b.*, l.v FROM lk_bare b JOIN lk l ON l.id = b.n ORDER BY 1 FOR UPDATE SKIP LOCKED
        1: DELETE FROM lk_bare WHERE n = 2
        2& SELECT * FROM lk_bare ORDER BY n FOR UPDATE
        1: COMMIT
        2.",
    ),
    (
        "a lock is held to the end of the transaction, or to a savepoint before it",
        "
        1: BEGIN
        1: SELECT id FROM lk WHERE id = 1 FOR UPDATE
        1: SAVEPOINT s
        1: SELECT id FROM lk WHERE id = 2 FOR UPDATE
        1: UPDATE lk SET v = 0 WHERE id = 3
        2: SELECT id FROM lk WHERE id < 5 ORDER BY id FOR UPDATE SKIP LOCKED
        1: ROLLBACK TO s
        2: SELECT id FROM lk WHERE id < 5 ORDER BY id FOR UPDATE SKIP LOCKED
        1: SELECT id FROM lk WHERE id = 4 FOR UPDATE
        1: RELEASE s
        2: SELECT id FROM lk WHERE id < 5 ORDER BY id FOR UPDATE SKIP LOCKED
        1: SAVEPOINT t
        1: SELECT id FROM lk WHERE id = 3 FOR UPDATE
        1: SELECT 1 / 0
        2: SELECT id FROM lk WHERE id < 5 ORDER BY id FOR UPDATE SKIP LOCKED
        1: ROLLBACK TO t
        1: ROLLBACK
        2: SELECT id FROM lk WHERE id < 5 ORDER BY id FOR UPDATE SKIP LOCKED
        1: BEGIN
        1: SELECT id FROM lk WHERE id = 1 FOR UPDATE
        1: SELECT nothing
        2: SELECT id FROM lk WHERE id = 1 FOR UPDATE NOWAIT
        1: COMMIT
        1: SELECT id FROM lk WHERE id = 1 FOR UPDATE
        2: SELECT id FROM lk WHERE id = 1 FOR UPDATE NOWAIT",
    ),
    (
        "lock_timeout",
        "
        1: BEGIN
        1: SELECT id FROM lk WHERE id = 1 FOR UPDATE
        2: SET lock_timeout = 100
        2: SHOW lock_timeout
        2: UPDATE lk SET v = 1 WHERE id = 1
        2: DELETE FROM lk WHERE v = 10
        2: SELECT id FROM lk WHERE id = 1 FOR SHARE
        2: BEGIN
        2: UPDATE lk SET v = 2 WHERE id = 2
        2: SELECT id FROM lk ORDER BY id FOR UPDATE
        2: SELECT 1
        3: SELECT id FROM lk WHERE id = 2 FOR UPDATE NOWAIT
        2: ROLLBACK
        1: COMMIT
        2: SELECT id FROM lk WHERE id = 1 FOR SHARE",
    ),
    (
        "two who wait for each other",
        "
        1: SET deadlock_timeout = '20s'
        2: SET deadlock_timeout = '50ms'
        1: BEGIN
        2: BEGIN
        1: UPDATE lk SET v = 1 WHERE id = 1
        2: UPDATE lk SET v = 2 WHERE id = 2
        1& UPDATE lk SET v = v + 100 WHERE id = 2
        2: UPDATE lk SET v = v + 100 WHERE id = 1
        1.
        1: COMMIT
        2: COMMIT
        1: SELECT id, v FROM lk ORDER BY id LIMIT 2",
    ),
    (
        "a row, and a number that was locked: the row is asked for last",
        "
        1: SET deadlock_timeout = '20s'
        2: SET deadlock_timeout = '50ms'
        1: BEGIN
        2: BEGIN
        1: UPDATE lk SET v = 1 WHERE id = 1
        2: SELECT pg_advisory_xact_lock(7)
        1& SELECT pg_advisory_xact_lock(7)
        2: UPDATE lk SET v = v + 100 WHERE id = 1
        2: ROLLBACK
        1.
        1: COMMIT
        1: SELECT id, v FROM lk ORDER BY id LIMIT 1",
    ),
    (
        "a row, and a number that was locked: the number is asked for last",
        "
        1: SET deadlock_timeout = '20s'
        2: SET deadlock_timeout = '20s'
        3: SET deadlock_timeout = '50ms'
        1: BEGIN
        2: BEGIN
        3: BEGIN
        1: SELECT pg_advisory_xact_lock(7)
        2: UPDATE lk SET v = 1 WHERE id = 1
        3: UPDATE lk SET v = 1 WHERE id = 2
        1& UPDATE lk SET v = 2 WHERE id = 1
        2& UPDATE lk SET v = 2 WHERE id = 2
        3: SELECT pg_advisory_xact_lock(7)
        3: ROLLBACK
        2.
        2: COMMIT
        1.
        1: COMMIT
        1: SELECT id, v FROM lk ORDER BY id LIMIT 2",
    ),
    (
        "three who wait for each other, in three ways",
        "
        1: SET deadlock_timeout = '20s'
        2: SET deadlock_timeout = '20s'
        3: SET deadlock_timeout = '50ms'
        1: BEGIN
        2: BEGIN
        3: BEGIN
        1: SELECT id FROM lk WHERE id = 1 FOR UPDATE
        2: SELECT id FROM lk WHERE v = 20 FOR UPDATE
        3: DELETE FROM lk WHERE id = 3
        1& SELECT id FROM lk WHERE id = 2 FOR SHARE
        2& UPDATE lk SET v = 1 WHERE v = 30
        3: INSERT INTO lk VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = 5
        2.
        2: COMMIT
        1.
        1: COMMIT
        3: ROLLBACK
        1: SELECT id, v FROM lk ORDER BY id LIMIT 3",
    ),
    (
        "INSERT ... ON CONFLICT changes the newest row",
        "
        1: BEGIN
        1: UPDATE lk SET v = 100 WHERE id = 1
        2& INSERT INTO lk VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = lk.v + excluded.v RETURNING v
        1: COMMIT
        2.
        1: BEGIN
        1: DELETE FROM lk WHERE id = 1
        2: BEGIN
        2& INSERT INTO lk VALUES (1, 7), (8, 8) ON CONFLICT (id) DO UPDATE SET v = 0 RETURNING id, v
        1: COMMIT
        2.
        2: COMMIT
        1: INSERT INTO lk VALUES (1, 1) ON CONFLICT DO NOTHING
        1: SELECT id, v FROM lk WHERE id IN (1, 8) ORDER BY id",
    ),
    (
        "jobs of a queue, taken in one statement",
        "
        1: BEGIN
        1: DELETE FROM lk WHERE id = (SELECT id FROM lk ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *
        2: DELETE FROM lk WHERE id = (SELECT id FROM lk ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, v
        3: UPDATE lk SET t = 'mine' WHERE id IN (SELECT id FROM lk WHERE v < 50 ORDER BY v LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id
        1: ROLLBACK
        2: UPDATE lk SET v = 0 WHERE id = (SELECT id FROM lk WHERE v = 17 FOR UPDATE)
        2: UPDATE lk SET v = 0 WHERE id = (SELECT id FROM lk FOR UPDATE)
        2: DELETE FROM lk WHERE id = (SELECT id, v FROM lk LIMIT 1 FOR UPDATE)
        2: PREPARE take (integer, integer) AS DELETE FROM lk WHERE id IN (SELECT id FROM lk WHERE v > $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id
        2: EXECUTE take (30, 1)
        2: EXECUTE take (30, 1)
        1: SELECT id, v, t FROM lk ORDER BY id",
    ),
    (
        "jobs of a queue, taken by a WITH query",
        "
        1: BEGIN
        1: WITH next AS (SELECT id FROM lk ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE lk SET v = 100, t = 'first' FROM next WHERE lk.id = next.id RETURNING lk.*
        2: WITH next AS (SELECT id, v FROM lk ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) DELETE FROM lk USING next WHERE lk.id = next.id RETURNING lk.id, next.v
        3: WITH next (job, was) AS (SELECT id, t FROM lk WHERE v > 20 ORDER BY v LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) UPDATE lk SET t = was || '!' FROM next WHERE id = job RETURNING id, t, next.*
        2& WITH next AS (SELECT id FROM lk WHERE id = 1 FOR UPDATE) UPDATE lk SET v = v + 1 FROM next WHERE lk.id = next.id RETURNING lk.id, v, t
        1: COMMIT
        2.
        1: WITH next AS (SELECT id FROM lk WHERE v = 17 FOR UPDATE) DELETE FROM lk USING next WHERE lk.id = next.id RETURNING lk.id
        1: WITH next AS (SELECT id FROM lk ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE lk SET t = 'in' WHERE id IN (SELECT id FROM next) RETURNING id, t
        1: WITH few AS (SELECT 3 AS n), next AS (SELECT id FROM lk ORDER BY id LIMIT 1 FOR UPDATE) UPDATE lk SET v = v + (SELECT n FROM few) WHERE id = (SELECT id FROM next) RETURNING id, v
        1: WITH few AS (SELECT 3 AS n) DELETE FROM lk WHERE id = (SELECT id FROM lk WHERE id = 3 FOR UPDATE) RETURNING id, (SELECT n FROM few)
        1: WITH lk AS (SELECT id AS job FROM lk ORDER BY id DESC LIMIT 1 FOR UPDATE) DELETE FROM lk USING lk AS next WHERE lk.id = next.job RETURNING id
        1: WITH next AS (SELECT nothing FROM lk FOR UPDATE) DELETE FROM lk USING next WHERE lk.id = next.nothing
        2: PREPARE take (integer, integer) AS WITH next AS (SELECT id FROM lk WHERE v > $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED) UPDATE lk SET v = v + $1 FROM next WHERE lk.id = next.id AND next.id >= $2 RETURNING lk.id, v
        2: EXECUTE take (30, 1)
        2: EXECUTE take (30, 2)
        2: EXECUTE take (5000, 1)
        1: SELECT id, v, t FROM lk ORDER BY id",
    ),
    (
        "subqueries and WITH queries lock in four strengths",
        "
        1: BEGIN
        1: UPDATE lk_other SET lk = 1 WHERE lk = (SELECT id FROM lk WHERE id = 1 FOR KEY SHARE)
        1: WITH l AS (SELECT id FROM lk WHERE id = 2 FOR NO KEY UPDATE OF lk) UPDATE lk_other SET lk = 2 FROM l WHERE lk_other.id = l.id
        1: WITH l AS (SELECT id FROM lk WHERE id = 3 FOR SHARE NOWAIT) DELETE FROM lk_other USING l WHERE lk_other.id = l.id + 4
        2: SELECT id FROM lk WHERE id < 5 ORDER BY id FOR KEY SHARE SKIP LOCKED
        2: SELECT id FROM lk WHERE id < 5 ORDER BY id FOR SHARE SKIP LOCKED
        2: SELECT id FROM lk WHERE id < 5 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
        2: SELECT id FROM lk WHERE id < 5 ORDER BY id FOR UPDATE SKIP LOCKED
        2: DELETE FROM lk_other WHERE lk = (SELECT id FROM lk WHERE id = 2 FOR KEY SHARE NOWAIT) AND id > 100
        2: WITH l AS (SELECT id FROM lk WHERE id = 2 FOR SHARE NOWAIT) DELETE FROM lk_other USING l WHERE lk_other.id = l.id + 100
        1: ROLLBACK",
    ),
    (
        "parameters, prepared statements and constants",
        "
        1: PREPARE one (integer) AS SELECT v FROM lk WHERE id = $1 FOR UPDATE
        1: PREPARE some (integer, bigint, bigint) AS SELECT id FROM lk WHERE v > $1 ORDER BY id LIMIT $2 OFFSET $3 FOR NO KEY UPDATE
        1: BEGIN
        1: EXECUTE one (1)
        1: EXECUTE some (20, 2, 1)
        2: SELECT id FROM lk ORDER BY id FOR UPDATE SKIP LOCKED
        1: EXECUTE some (20, NULL, 0)
        1: SELECT v FROM lk WHERE id = 2 FOR UPDATE
        1: SELECT v FROM lk WHERE id = 6 FOR UPDATE
        2: SELECT id FROM lk ORDER BY id FOR UPDATE SKIP LOCKED
        1: COMMIT",
    ),
    (
        "what cannot be locked",
        "
        1: SELECT DISTINCT v FROM lk FOR UPDATE
        1: SELECT v FROM lk GROUP BY v FOR UPDATE
        1: SELECT 1 FROM lk HAVING true FOR SHARE
        1: SELECT count(*) FROM lk FOR UPDATE
        1: SELECT sum(v) + 1 FROM lk FOR NO KEY UPDATE
        1: SELECT row_number() OVER () FROM lk FOR KEY SHARE
        1: SELECT id FROM lk UNION ALL SELECT id FROM lk FOR UPDATE
        1: SELECT id, generate_series(1, 2) FROM lk FOR UPDATE
        1: SELECT l.id FROM lk l LEFT JOIN lk_other o ON o.lk = l.id FOR UPDATE
        1: SELECT l.id FROM lk l FULL JOIN lk_other o ON o.lk = l.id FOR UPDATE OF l
        1: SELECT id FROM lk FOR UPDATE OF nowhere
        1: SELECT id FROM lk AS l FOR UPDATE OF lk
        1: SELECT id FROM lk FOR UPDATE OF public.lk
        1: SELECT id FROM lk, generate_series(1, 2) AS g (i) FOR UPDATE OF g
        1: WITH w AS (SELECT 1 AS a) SELECT id FROM lk, w FOR UPDATE OF w
        1: WITH w AS (SELECT 1 AS a) SELECT id FROM lk, w WHERE id = 1 FOR UPDATE
        1: SELECT id, i FROM lk, generate_series(1, 2) AS g (i) WHERE id = 1 ORDER BY 2 FOR UPDATE
        1: SELECT (SELECT max(v) FROM lk) FROM lk_other WHERE id = 7 FOR UPDATE
        1: SELECT 1 FOR UPDATE
        1: VALUES (1) FOR UPDATE
        1: SELECT nothing FROM lk FOR UPDATE
        1: SELECT 1 FROM no_table FOR UPDATE
        1: BEGIN READ ONLY
        1: SELECT id FROM lk WHERE id = 1 FOR UPDATE
        1: ROLLBACK
        1: BEGIN READ ONLY
        1: SELECT id FROM lk WHERE v = 1 FOR KEY SHARE
        1: ROLLBACK",
    ),
    (
        "one's own rows",
        "
        1: BEGIN
        1: INSERT INTO lk VALUES (9, 90, 'new')
        1: SELECT id, v FROM lk WHERE id = 9 FOR UPDATE
        1: UPDATE lk SET v = 11 WHERE id = 1
        1: SELECT id, v FROM lk WHERE id = 1 FOR SHARE
        1: SELECT id, v FROM lk WHERE v IN (11, 90) ORDER BY id FOR UPDATE
        1: DELETE FROM lk WHERE id = 1
        1: SELECT id FROM lk WHERE id = 1 FOR UPDATE
        2: SELECT id, v FROM lk ORDER BY id FOR UPDATE SKIP LOCKED
        2& SELECT id, v FROM lk WHERE id = 1 FOR UPDATE
        1: COMMIT
        2.
        2: SELECT id, v FROM lk ORDER BY id FOR UPDATE SKIP LOCKED",
    ),
    (
        "values that are computed of one row, and conditions beside its key",
        "
        1: BEGIN
        1: UPDATE lk SET v = CASE WHEN v > 5 THEN v * 2 ELSE 0 END WHERE id = 1 RETURNING v, v + 1
        2& UPDATE lk SET v = CASE WHEN v > 15 THEN v + 1 ELSE -1 END, t = t || '!' WHERE id = 1 RETURNING v, t
        1: COMMIT
        2.
        1: BEGIN
        1: DELETE FROM lk WHERE id = 2 AND v > 5 RETURNING v * 2
        2: BEGIN
        2& UPDATE lk SET v = v + 0.4 WHERE id = 2 AND v < 100 RETURNING v, upper(t)
        1: ROLLBACK
        2.
        3& DELETE FROM lk WHERE id = 2 AND v % 2 = 0 RETURNING v + 0.5
        2: COMMIT
        3.
        1: BEGIN
        1: UPDATE lk SET v = 0 WHERE id = 3
        2: UPDATE lk SET v = v + 0.6 WHERE id = 3 AND v > 1000
        2: DELETE FROM lk WHERE id = 3 AND v > 1000 RETURNING v + 1
        2: BEGIN
        2: DELETE FROM lk WHERE id = 3 AND v > 1000 RETURNING v + 1
        3& DELETE FROM lk WHERE id = 3 AND v > 1 RETURNING v, v + 1
        2& UPDATE lk SET v = v * 1.5 WHERE id = 3 AND v > 1
        1: COMMIT
        2.
        2: COMMIT
        3.
        1: BEGIN
        1: SELECT v + 1, upper(t) FROM lk WHERE id = 4 FOR UPDATE
        2: SELECT v * 2, t FROM lk WHERE id = 4 AND v > 0 FOR KEY SHARE SKIP LOCKED
        2: SELECT v * 2, t FROM lk WHERE id = 4 AND v > 1000 FOR UPDATE NOWAIT
        2: SELECT v * 2, t FROM lk WHERE id = 4 AND v > 0 FOR UPDATE NOWAIT
        2& SELECT v * 2, t FROM lk WHERE id = 4 FOR NO KEY UPDATE
        1: UPDATE lk SET v = v + 1.0 WHERE id = 4
        1: COMMIT
        2.
        1: SELECT id, v, t FROM lk ORDER BY id",
    ),
    (
        "few rows by their keys, by an index and by looking others up",
        "
        0: CREATE INDEX lk_v ON lk (v, id)
        1: BEGIN
        1: SELECT id FROM lk WHERE id IN (1, 2, 70) ORDER BY id FOR UPDATE
        2: SELECT id FROM lk WHERE id IN (1, 2, 3) ORDER BY id FOR UPDATE SKIP LOCKED
        2: SELECT id FROM lk WHERE id IN (1, 3) ORDER BY id FOR UPDATE NOWAIT
        2& UPDATE lk SET v = v + 1 WHERE id IN (2, 3)
        3& DELETE FROM lk WHERE id IN (1, 80)
        1: COMMIT
        2.
        3.
        1: BEGIN
        1: SELECT id, v FROM lk WHERE v > 0 ORDER BY v, id LIMIT 1 FOR UPDATE
        2: SELECT id, v FROM lk WHERE v > 0 ORDER BY v, id LIMIT 1 FOR UPDATE SKIP LOCKED
        2: SELECT id FROM lk ORDER BY v DESC, id DESC LIMIT 2 FOR UPDATE SKIP LOCKED
        2: SELECT id FROM lk WHERE v = 40 ORDER BY id LIMIT 1 FOR UPDATE NOWAIT
        2: SELECT id FROM lk WHERE v BETWEEN 20 AND 40 ORDER BY v LIMIT 1 FOR SHARE NOWAIT
        2& SELECT id, v FROM lk WHERE v > 0 ORDER BY v, id LIMIT 1 FOR SHARE
        3& UPDATE lk SET v = v - 5 WHERE v = 21
        1: COMMIT
        2.
        3.
        1: BEGIN
        1: SELECT o.id, l.v FROM lk_other o JOIN lk l ON l.id = o.lk ORDER BY o.id FOR UPDATE
        2: SELECT id FROM lk ORDER BY id FOR UPDATE SKIP LOCKED
        2: SELECT id FROM lk_other ORDER BY id FOR UPDATE SKIP LOCKED
        2& UPDATE lk SET v = o.id FROM lk_other o WHERE o.lk = lk.id AND o.id = 2
        1: COMMIT
        2.
        1: PREPARE listed (integer, integer) AS SELECT id, v FROM lk WHERE id IN ($1, $2) ORDER BY id FOR UPDATE
        1: PREPARE first_of (integer) AS SELECT id FROM lk WHERE v >= $1 ORDER BY v, id LIMIT 1 FOR UPDATE
        1: BEGIN
        1: EXECUTE listed (3, 4)
        1: EXECUTE first_of (50)
        2: SELECT id FROM lk ORDER BY id FOR UPDATE SKIP LOCKED
        1: COMMIT
        1: SELECT id, v FROM lk ORDER BY id",
    ),
    (
        "an INSERT waits for whoever changes the row of its key",
        "
        1: BEGIN
        1: DELETE FROM lk WHERE id = 1
        2: BEGIN
        2& INSERT INTO lk VALUES (1, 7)
        3& INSERT INTO lk VALUES (8, 8), (1, 8)
        1: ROLLBACK
        2.
        3.
        2: ROLLBACK
        1: BEGIN
        1: DELETE FROM lk WHERE id = 2
        2: BEGIN
        2& INSERT INTO lk VALUES (2, 7) RETURNING v
        1: COMMIT
        2.
        2: COMMIT
        1: BEGIN
        1: DELETE FROM lk WHERE id = 4
        2& INSERT INTO lk VALUES (4, 4)
        1: COMMIT
        2.
        1: BEGIN
        1: UPDATE lk SET v = 0 WHERE id = 3
        2& INSERT INTO lk VALUES (3, 7)
        3: BEGIN
        3& INSERT INTO lk VALUES (9, 9), (3, 7)
        1: COMMIT
        2.
        3.
        3: ROLLBACK
        1: BEGIN
        1: SELECT id FROM lk WHERE id = 3 FOR SHARE
        2: INSERT INTO lk VALUES (3, 7)
        2: INSERT INTO lk VALUES (9, 9), (3, 7)
        1: COMMIT
        1: SELECT id, v FROM lk ORDER BY id",
    ),
    (
        "a row that moves to a key waits for whoever deletes the row that has it",
        "
        1: BEGIN
        1: DELETE FROM lk WHERE id = 1
        2& UPDATE lk SET id = 1 WHERE id = 2 RETURNING id, v
        1: ROLLBACK
        2.
        1: BEGIN
        1: DELETE FROM lk WHERE id = 1
        2: BEGIN
        2& UPDATE lk SET id = 1 WHERE id = 2 RETURNING id, v
        1: COMMIT
        2.
        2: COMMIT
        1: SELECT id, v FROM lk ORDER BY id",
    ),
    (
        "a table that is emptied waits for whoever has its rows",
        "
        1: BEGIN
        1: SELECT id FROM lk WHERE id = 1 FOR UPDATE
        2& TRUNCATE lk
        1: UPDATE lk SET v = 5 WHERE id = 1
        1: COMMIT
        2.
        1: SELECT count(*) FROM lk",
    ),
];
