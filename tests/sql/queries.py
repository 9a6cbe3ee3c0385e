"""Queries that a plan without limits answers exactly as the engine's own SQL does."""

EXACT_QUERIES = [
    "SELECT item, COUNT(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM people p WHERE p.user_id = o.uid AND p.age > "
    "o.amount) AND o.amount <> 0.5 + 0.5 AND uid IN (SELECT user_id FROM people GROUP BY user_id HAVING SUM(age) > 50) "
    "AND o.amount > (SELECT MIN(amount) FROM orders i WHERE i.uid = o.uid) GROUP BY item ORDER BY item",
    "SELECT k, COUNT(*) AS n FROM (SELECT user_id, note, MAX(age) OVER (PARTITION BY user_id) AS top, DENSE_RANK() "
    "OVER (PARTITION BY user_id ORDER BY age DESC, num) AS r FROM people WHERE user_id > 0 UNION ALL SELECT uid, item, "
    "2 * amount, 1.0 FROM orders) AS t (u, k, top, r) WHERE r <= 2 AND top > 3 GROUP BY k ORDER BY k",
    "WITH t AS (SELECT user_id, BOOL_OR(age > 90) AS old, BOOL_AND(flag) AS always FROM people WHERE user_id >= 0 "
    "GROUP BY user_id) SELECT old, COUNT(*) AS n, COUNT_IF(always) AS a FROM t GROUP BY old ORDER BY old",
    "SELECT note, ROW_NUMBER() OVER () > 0 AS i, COUNT(*) AS n FROM people WHERE user_id >= 0 GROUP BY ALL "
    "ORDER BY note",
    "SELECT note, flag, COUNT(*) AS n, AVG(age) AS a, COUNT(DISTINCT age) AS d, GROUPING(flag) AS g FROM people WHERE "
    "user_id >= 0 AND note >= 'n5' AND flag IS NOT NULL GROUP BY ROLLUP (note, flag) ORDER BY note NULLS LAST, flag "
    "NULLS LAST",
    "SELECT region AS r, flag, SUM(age) AS s, GROUPING(region) + 2 * GROUPING(flag) AS g FROM people WHERE user_id >= "
    "0 AND region <> 'mars' AND flag IS NOT NULL GROUP BY CUBE (r, flag) HAVING COUNT(*) > 9 ORDER BY g, r, flag",
    "SELECT note, YEAR(day) AS y, flag, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY GROUPING(note)) AS "
    "q FROM people WHERE user_id >= 0 AND day IS NOT NULL AND flag GROUP BY flag, GROUPING SETS ((note, y), (note), "
    "()) ORDER BY note NULLS FIRST, y NULLS FIRST",
    "SELECT note, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS share, RANK() OVER (ORDER BY COUNT(*) DESC) AS r, "
    "ROW_NUMBER() OVER (ORDER BY note DESC) AS i, DENSE_RANK() OVER (ORDER BY COUNT(*)) AS d, LAG(COUNT(*)) OVER "
    "(ORDER BY note) AS b, LEAD(COUNT(*), 2, 0) OVER (ORDER BY note) AS l FROM people WHERE user_id >= 0 GROUP BY note "
    "ORDER BY r, note",
    "SELECT region, note, SUM(age) AS s, SUM(SUM(age)) OVER (PARTITION BY region ORDER BY note) AS u, MAX(COUNT(*)) "
    "OVER (PARTITION BY region) AS x, AVG(SUM(age)) OVER (PARTITION BY region ORDER BY note ROWS BETWEEN 2 PRECEDING "
    "AND 1 FOLLOWING) AS m, FIRST_VALUE(note) OVER (PARTITION BY region ORDER BY SUM(age), note) AS f, "
    "LAST_VALUE(note) OVER (PARTITION BY region ORDER BY COUNT(*)) IS NULL AS e, MIN(note) OVER () AS y, COUNT(*) OVER "
    "(PARTITION BY note) AS c, NTILE(3) OVER (PARTITION BY region ORDER BY note) AS t, PERCENT_RANK() OVER (ORDER BY "
    "note) AS p, CUME_DIST() OVER (PARTITION BY region ORDER BY COUNT(*)) AS q FROM people WHERE user_id >= 0 AND "
    "region <> 'mars' GROUP BY region, note ORDER BY region, note",
    "SELECT DISTINCT note, flag, COUNT(*) AS n FROM people WHERE user_id >= 0 AND flag IS NOT NULL GROUP BY note, flag "
    "HAVING COUNT(*) > 5 QUALIFY RANK() OVER (PARTITION BY flag ORDER BY n DESC, note) BETWEEN 2 AND 4 "
    "ORDER BY SUM(age) / COUNT(*) - RANK() OVER (ORDER BY note), n LIMIT 4 OFFSET 1",
    "SELECT note, ROW_NUMBER() OVER (ORDER BY note) AS i, COUNT(*) AS n FROM people WHERE user_id >= 0 GROUP BY note "
    "QUALIFY i > 3 ORDER BY -i OFFSET 2",
    "SELECT COUNT(DISTINCT note) AS n, COUNT(DISTINCT age) AS a, COUNT(DISTINCT CASE WHEN age > 50 THEN user_id END) "
    "AS u, COUNT(DISTINCT day) FILTER (WHERE flag) AS d, COUNT(DISTINCT region || note) AS r, COUNT(DISTINCT user_id) "
    "FILTER (WHERE age > 93) AS v, COUNT(DISTINCT flag) AS f FROM people WHERE user_id >= 0",
    "SELECT note, COUNT(DISTINCT age) AS a, COUNT(DISTINCT region) AS r, COUNT(*) AS n FROM people WHERE user_id >= 0 "
    "GROUP BY note HAVING COUNT(DISTINCT age) > 9 ORDER BY a DESC, note",
    "SELECT ROUND(CORR(income, age), 4) AS c, ROUND(COVAR_POP(income, age) / 1000, 1) AS p, ROUND(COVAR_SAMP(age, "
    "-age), 3) AS s, ROUND(REGR_SLOPE(income, age), 1) AS b FROM people WHERE user_id >= 0",
    "SELECT COUNT(*) AS n, SUM(o.amount) AS s FROM people NATURAL JOIN (SELECT uid AS user_id, amount FROM orders) AS "
    "o WHERE user_id > 3",
    "SELECT zone, COUNT(*) AS n FROM people NATURAL LEFT JOIN zones WHERE user_id >= 0 GROUP BY ALL ORDER BY zone",
    "SELECT LEFT(note, 2) AS k, EXTRACT(ISODOW FROM day) AS w, COUNT(*) AS n FROM people WHERE day IS NOT NULL AND "
    "note IS NOT NULL GROUP BY ALL ORDER BY k, w",
    "SELECT SUM(age) / COUNT(age) AS m, 100 / COUNT(*) AS h, COUNT(*) % 7 AS r FROM people WHERE user_id >= 0",
    "SELECT note, SUM(age) / SUM(CASE WHEN age > 20 THEN 1 ELSE 0 END) AS q FROM people WHERE user_id >= 0 GROUP BY "
    "note HAVING SUM(age) / COUNT(*) > 30 ORDER BY q / COUNT(*), note",
    "SELECT COUNT(*) FILTER (WHERE age > 50) AS n, SUM(age) FILTER (WHERE flag) AS s, COUNT_IF(age > 20) AS c, "
    "AVG(age) FILTER (WHERE NOT flag) AS a, COUNT(note) FILTER (WHERE age < 9) AS k, "
    "COUNT_IF(flag) FILTER (WHERE age > 7) AS f FROM people WHERE user_id >= 0",
    "SELECT note, flag, COUNT(*) AS n FROM people WHERE user_id >= 0 AND note >= 'n5' GROUP BY ALL "
    "ORDER BY note, flag NULLS LAST",
    "SELECT COUNT(*) AS n FROM people WHERE user_id >= 0 GROUP BY ALL",
    "SELECT o.item, COUNT(*) AS n FROM people p, orders o WHERE p.user_id = o.uid AND p.age > 9 GROUP BY o.item "
    "ORDER BY o.item",
    "SELECT z.zone, COUNT(*) AS n FROM people p, orders o, zones z WHERE (o.uid = p.user_id AND z.region = p.region) "
    "AND p.user_id > 0 AND z.zone IS NOT NULL GROUP BY z.zone ORDER BY z.zone",
    "SELECT COUNT(*) AS n, COUNT(p.age) AS m FROM orders o RIGHT JOIN people p ON p.user_id = o.uid AND o.amount > 5 "
    "WHERE p.user_id >= 0",
    "SELECT COUNT(*) AS n, SUM(q.age) AS s FROM (SELECT uid AS user_id, amount FROM orders) AS o "
    "RIGHT JOIN (SELECT * FROM people WHERE user_id >= 0) AS q USING (user_id) WHERE user_id > 7",
    "WITH t AS (SELECT p.*, z.zone FROM people p LEFT JOIN zones z ON z.region = p.region) SELECT zone, SUM(age) AS s "
    "FROM t WHERE user_id >= 0 GROUP BY zone ORDER BY zone NULLS LAST",
    "SELECT COUNT(*) AS n FROM (SELECT user_id, COUNT_IF(age > 30) AS k, SUM(age) FILTER (WHERE flag) AS s FROM people "
    "WHERE user_id >= 0 GROUP BY ALL) AS t WHERE k > 3 AND s > 50",
    "SELECT COUNT(*), COUNT(income), SUM(age), SUM(income), COUNT(DISTINCT user_id) FROM people WHERE user_id IS "
    "NOT NULL",
    "SELECT AVG(income), AVG(age), VAR_POP(age), VARIANCE(age), STDDEV(income), STDDEV_POP(income) FROM people "
    "WHERE user_id >= 0",
    "SELECT note, COUNT(*) AS n, SUM(age) AS s FROM people WHERE age >= 0 GROUP BY note ORDER BY n DESC, note",
    "SELECT note, COUNT(*) AS n FROM people WHERE user_id >= 0 GROUP BY note HAVING n > 25 AND SUM(age) < 100000 "
    "ORDER BY note LIMIT 3",
    "SELECT note, flag, AVG(age) AS a FROM people WHERE note LIKE 'n1%' GROUP BY note, flag ORDER BY note, flag "
    "NULLS LAST",
    "SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) AS n FROM people WHERE age IS NOT NULL GROUP BY decade ORDER "
    "BY decade",
    "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM people WHERE day BETWEEN '2024-02-01' AND "
    "'2024-06-30' GROUP BY m ORDER BY m",
    "SELECT YEAR(day) AS y, EXTRACT(quarter FROM moment) AS q, SUM(age) AS n FROM people WHERE moment < "
    "'2024-05-01 12:00:00' GROUP BY y, q ORDER BY y, q",
    "SELECT COUNT(*) * 2 + 1 AS n, ROUND(AVG(age), 2) AS a, CASE WHEN COUNT(*) > 3 THEN 'many' ELSE 'few' END AS w "
    "FROM people WHERE user_id >= 0",
    "SELECT SUM(CASE WHEN age > 50 AND NOT flag THEN 1 ELSE 0 END) AS s FROM people WHERE COALESCE(region, 'x') <> "
    "'mars'",
    "SELECT LENGTH(note) AS l, COUNT(*) AS n FROM people WHERE note IS NOT NULL AND LOWER(note) IN ('n1', 'n10', "
    "'n2') GROUP BY l ORDER BY l",
    "SELECT z.zone, COUNT(*) AS n, SUM(p.age) AS s FROM people p JOIN zones z ON p.region = z.region WHERE z.zone "
    "IS NOT NULL AND p.user_id >= 0 "
    "GROUP BY z.zone ORDER BY z.zone",
    "SELECT o.item, COUNT(*) AS n, SUM(o.amount) AS s FROM people p JOIN orders o ON p.user_id = o.uid GROUP BY "
    "o.item ORDER BY o.item",
    "SELECT COUNT(*) AS n, COUNT(o.item) AS m FROM people p LEFT JOIN orders o ON p.user_id = o.uid AND o.amount > "
    "5 WHERE p.user_id >= 0",
    "WITH t AS (SELECT user_id, COUNT(*) AS n, SUM(age) AS s, MAX(age) AS top FROM people WHERE user_id >= 0 GROUP "
    "BY user_id) "
    "SELECT n, COUNT(*) AS c, AVG(LEAST(GREATEST(s, 0), 10000)) AS a FROM t WHERE top > 20 GROUP BY n ORDER BY n",
    "SELECT COUNT(*) AS n FROM people WHERE note NOT LIKE 'n1%' AND age NOT IN (1, 2) AND age NOT BETWEEN 5 AND 9 "
    "AND NOT note ILIKE 'N2'",
    "SELECT CONCAT(note, region) AS c, note || region AS d, COUNT(*) AS n FROM people WHERE user_id = 3 GROUP BY "
    "c, d ORDER BY c",
    "SELECT COUNT(*) AS n FROM people WHERE TRY_CAST(note AS DOUBLE) IS NULL AND moment < CAST('2024-02-01' AS "
    "TIMESTAMP) AND day < TIMESTAMP '2024-03-01'",
    "SELECT COUNT(*) AS n FROM (SELECT user_id AS u, COUNT(*) AS n, MIN(day) AS d FROM people GROUP BY u HAVING n "
    "> 7) AS t WHERE d < '2024-02-01'",
    "SELECT IF(age > 50, 'old', 'young') AS g, CAST(flag AS INT) AS f, COUNT(*) AS n FROM people WHERE flag IS NOT "
    "NULL GROUP BY g, f ORDER BY g, f",
    "SELECT AVG(t.a) AS a FROM (SELECT age + 1 AS a FROM people WHERE age > 10 AND user_id >= 0) AS t",
    "SELECT SUM(LEAST(GREATEST(price * 2 - 1, -100), 100)) AS s FROM people WHERE price < 10 AND user_id >= 0",
    "SELECT SUM(LEAST(GREATEST(CAST(score AS DOUBLE), 0), 50)) AS s FROM people WHERE CAST(score AS DOUBLE) > 3",
]
