-- A tour with psql: DDL, COPY, queries, transactions and errors, in plain PostgreSQL.
-- Standard output and error together are compared with tour.expected; the same file runs against PostgreSQL.
\set ON_ERROR_STOP 0
\pset null '(null)'

CREATE TABLE psql_city (
    id       integer PRIMARY KEY,
    name     text NOT NULL,
    country  varchar(2),
    people   bigint,
    area_km2 numeric(10,2),
    founded  date
);

\echo '== rows in, by INSERT and by COPY'
INSERT INTO psql_city VALUES
    (1, 'Porto', 'PT', 231800, 41.42, '1123-06-01'),
    (2, 'Graz', 'AT', 302749, 127.57, NULL)
RETURNING id, name;
COPY psql_city FROM STDIN;
3	Tartu	EE	97759	38.97	1030-01-01
4	Nowhere\tNew	\N	\N	\N	\N
5	Bergen	NO	291940	464.71	1070-01-01
\.
COPY psql_city (id, name, country) FROM STDIN WITH (DELIMITER '|');
6|Ghent, "Gent"|BE
7|Łódź|PL
\.

\echo '== rows out'
SELECT * FROM psql_city ORDER BY id;
COPY (SELECT id, name, people FROM psql_city ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER true);
COPY (SELECT id, name, country FROM psql_city WHERE id > 3 ORDER BY id) TO STDOUT;
SELECT country, count(*) AS cities, sum(people) AS people, max(area_km2) AS largest
    FROM psql_city GROUP BY country ORDER BY country NULLS LAST;
SELECT a.name, b.name AS larger
    FROM psql_city a JOIN psql_city b ON b.people > a.people
    ORDER BY a.people, b.people;

\echo '== a variable from a result, used in the next statement'
SELECT id AS oldest FROM psql_city WHERE founded IS NOT NULL ORDER BY founded LIMIT 1 \gset
SELECT name FROM psql_city WHERE id = :oldest;
SELECT name, founded FROM psql_city WHERE id = 5 \gx

\echo '== expanded output and no rows'
\x on
SELECT id, name, area_km2 FROM psql_city WHERE id = 1;
\x off
SELECT id FROM psql_city WHERE id = 99;

\echo '== changes tell their true row counts'
\set QUIET off
UPDATE psql_city SET people = people + 1 WHERE people IS NOT NULL;
INSERT INTO psql_city VALUES (7, 'again', NULL, NULL, NULL, NULL), (8, 'Brno', 'CZ', 396101, 230.18, NULL)
    ON CONFLICT (id) DO NOTHING;
INSERT INTO psql_city (id, name) VALUES (8, 'Brünn') ON CONFLICT (id) DO UPDATE SET name = excluded.name;
DELETE FROM psql_city WHERE country IS NULL;
\set QUIET on
SELECT id, name, people FROM psql_city ORDER BY id;

\echo '== a transaction with a savepoint, and one rolled back'
BEGIN;
DELETE FROM psql_city;
SELECT count(*) FROM psql_city;
ROLLBACK;
BEGIN;
UPDATE psql_city SET name = 'Oporto' WHERE id = 1;
SAVEPOINT before_mistake;
UPDATE psql_city SET name = 'mistake';
ROLLBACK TO SAVEPOINT before_mistake;
COMMIT;
SELECT count(*), count(DISTINCT name), min(name) FROM psql_city WHERE id IN (1, 2, 3);

\echo '== errors carry PostgreSQL''s codes'
\set VERBOSITY sqlstate
SELECT * FROM psql_missing;
SELECT missing FROM psql_city;
INSERT INTO psql_city (id, name) VALUES (1, 'duplicate');
INSERT INTO psql_city (id, name) VALUES (9, NULL);
INSERT INTO psql_city (id, name, country) VALUES (9, 'long', 'PRT');
SELECT 1 / 0;
SELECT 'x'::integer;
SELECT 2147483647 + 1;
CREATE TABLE psql_city (id integer PRIMARY KEY);
BEGIN;
SELECT 1 / 0;
SELECT 1;
ROLLBACK;
\set VERBOSITY terse
SELECT 'syntax' FRM psql_city;
INSERT INTO psql_city (id, name) VALUES (1, 'duplicate');
SELECT name,
       nme
    FROM psql_city;
\set VERBOSITY default
SELECT name, FROM psql_city;

\echo '== several statements in one string are one transaction'
INSERT INTO psql_city (id, name) VALUES (20, 'kept?') \; SELECT 1 / 0;
SELECT count(*) FROM psql_city WHERE id = 20;

TRUNCATE psql_city;
SELECT count(*) FROM psql_city;
DROP TABLE psql_city;
\echo ok
