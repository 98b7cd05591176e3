Cursors: what the relay carries out, and what it refuses of them.

-- in
DECLARE c CURSOR FOR SELECT 1
-- out
same
-- rules
cursors cursor answered info
cursor 0 "c" "                     SELECT 1" 0

-- in
declare "C d" insensitive no scroll cursor without hold for select a from t where b = 'x for y' -- for z
-- out
same
-- rules
cursors cursor answered info
cursor 0 "C d" "                                                            select a from t where b = 'x for y' -- for z" 0 no scroll

-- in
DECLARE "for" ASENSITIVE CURSOR FOR SELECT a FROM t FOR UPDATE
-- out
same
-- rules
cursors cursor answered info
cursor 0 "for" "                                    SELECT a FROM t FOR UPDATE" 0

-- in
DECLARE U&"d\0061" CURSOR FOR VALUES (1)
-- out
same
-- rules
cursors cursor answered info
cursor 0 "da" "                              VALUES (1)" 0

-- in
/* ü for */ DECLARE c /* for */ NO SCROLL CURSOR /* for */ FOR /* é */ TABLE t;
-- out
same
-- rules
cursors cursor answered info
cursor 0 "c" "                                                               /* é */ TABLE t" 0 no scroll

-- in
DECLARE c CURSOR FOR WITH x AS (SELECT 1) SELECT * FROM x WHERE a = $1
-- out
same
-- rules
cursors cursor answered info
cursor 0 "c" "                     WITH x AS (SELECT 1) SELECT * FROM x WHERE a = $1" 0

-- in
DECLARE c CURSOR FOR (SELECT 1 UNION SELECT 2) ORDER BY 1
-- out
same
-- rules
cursors cursor answered info
cursor 0 "c" "                     (SELECT 1 UNION SELECT 2) ORDER BY 1" 0

-- in
DECLARE c CURSOR FOR SELECT a FROM t FOR SHARE
-- out
same
-- rules
locking for_share rewritten info
cursors cursor answered info
cursor 0 "c" "                     SELECT a FROM t FOR SHARE" 0

-- in
DECLARE c CURSOR FOR SELECT a FROM rejected FOR SHARE
-- out
same
-- rules
locking for_share rejected error
cursors cursor answered info
cursor 0 "c" "                     SELECT a FROM rejected FOR SHARE" 0

-- in
DECLARE c CURSOR FOR SELECT a FROM t TABLESAMPLE system (1)
-- out
same
-- rules
dialect tablesample flagged error
cursors cursor answered info
cursor 0 "c" "                     SELECT a FROM t TABLESAMPLE system (1)" 0

-- in
DECLARE c SCROLL CURSOR FOR SELECT 1
-- out
same
-- rules
cursors cursor rejected error
refusal 0A000

-- in
DECLARE c BINARY CURSOR FOR SELECT 1
-- out
same
-- rules
cursors cursor rejected error
refusal 0A000

-- in
DECLARE c CURSOR WITH HOLD FOR SELECT 1
-- out
same
-- rules
cursors cursor answered info
cursor 0 "c" "                               SELECT 1" 0 hold

-- in
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1
-- out
same
-- rules
cursors cursor answered info
cursor 0 "c" "                                      SELECT 1" 0 scroll hold

-- in
DECLARE "d 1" NO SCROLL CURSOR WITH HOLD FOR SELECT a FROM t WHERE a = $1
-- out
same
-- rules
cursors cursor answered info
cursor 0 "d 1" "                                             SELECT a FROM t WHERE a = $1" 0 no scroll hold

-- in
DECLARE c CURSOR WITH HOLD FOR SELECT a FROM t FOR UPDATE
-- out
same
-- rules
cursors cursor rejected error
refusal 0A000

-- in
DECLARE c SCROLL CURSOR FOR SELECT a FROM t FOR SHARE
-- out
same
-- rules
cursors cursor rejected error
refusal 0A000

-- in
DECLARE c BINARY CURSOR WITH HOLD FOR SELECT 1
-- out
same
-- rules
cursors cursor rejected error
refusal 0A000

-- in
DECLARE c SCROLL NO SCROLL CURSOR FOR SELECT 1
-- out
same
-- rules
cursors cursor rejected error
refusal 42P11

-- in
DECLARE c INSENSITIVE ASENSITIVE CURSOR FOR SELECT 1
-- out
same
-- rules
cursors cursor rejected error
refusal 42P11

-- in
DECLARE c INSENSITIVE CURSOR FOR SELECT a FROM t FOR UPDATE
-- out
same
-- rules
cursors cursor rejected error
refusal 42P11

-- in
DECLARE c CURSOR FOR SELECT 1 INTO t
-- out
same
-- rules
cursors cursor rejected error
refusal 42601

-- in
DECLARE c CURSOR FOR WITH x AS (DELETE FROM t RETURNING a) SELECT a FROM x
-- out
same
-- rules
cursors cursor rejected error
refusal 0A000

-- in
DECLARE c CURSOR FOR SELECT 1; FETCH ALL FROM c
-- out
same
-- rules
cursors cursor rejected error
cursors cursor rejected error
refusal 0A000
refusal 0A000

-- in
BEGIN; DECLARE c CURSOR FOR SELECT 1
-- out
same
-- rules
cursors cursor rejected error
refusal 0A000

-- in
SELECT 1; CLOSE ALL
-- out
SELECT 1; SELECT 1
-- rules
session discard answered info
tag CLOSE CURSOR ALL

-- in
FETCH c
-- out
same
-- rules
cursors cursor answered info
cursor 1 "c" "" 1

-- in
FETCH NEXT FROM c
-- out
same
-- rules
cursors cursor answered info
cursor 1 "c" "" 1

-- in
FETCH FORWARD 2000 FROM "C d"
-- out
same
-- rules
cursors cursor answered info
cursor 1 "C d" "" 2000

-- in
FETCH 5 IN c
-- out
same
-- rules
cursors cursor answered info
cursor 1 "c" "" 5

-- in
FETCH ALL FROM c
-- out
same
-- rules
cursors cursor answered info
cursor 1 "c" "" 0

-- in
FETCH FORWARD ALL IN c
-- out
same
-- rules
cursors cursor answered info
cursor 1 "c" "" 0

-- in
FETCH FORWARD IN c
-- out
same
-- rules
cursors cursor answered info
cursor 1 "c" "" 1

-- in
FETCH 0 FROM c
-- out
same
-- rules
cursors cursor rejected error
cursor 1 "c" "" 0 elsewhere 0:0

-- in
FETCH -3 FROM c
-- out
same
-- rules
cursors cursor rejected error
cursor 1 "c" "" 0 backward elsewhere 0:-3

-- in
FETCH FORWARD -2147483648 FROM c
-- out
same
-- rules


-- in
FETCH PRIOR FROM c
-- out
same
-- rules
cursors cursor rejected error
cursor 1 "c" "" 0 backward elsewhere 1:1

-- in
FETCH BACKWARD 2 FROM c
-- out
same
-- rules
cursors cursor rejected error
cursor 1 "c" "" 0 backward elsewhere 1:2

-- in
FETCH BACKWARD -2 FROM c
-- out
same
-- rules
cursors cursor answered info
cursor 1 "c" "" 2

-- in
FETCH BACKWARD ALL FROM c
-- out
same
-- rules
cursors cursor rejected error
cursor 1 "c" "" 0 backward elsewhere 1:9223372036854775807

-- in
FETCH FIRST FROM c
-- out
same
-- rules
cursors cursor rejected error
cursor 1 "c" "" 0 elsewhere 2:1

-- in
FETCH LAST FROM c
-- out
same
-- rules
cursors cursor rejected error
cursor 1 "c" "" 0 elsewhere 2:-1

-- in
FETCH ABSOLUTE 2 FROM c
-- out
same
-- rules
cursors cursor rejected error
cursor 1 "c" "" 0 elsewhere 2:2

-- in
FETCH RELATIVE 1 FROM c
-- out
same
-- rules
cursors cursor answered info
cursor 1 "c" "" 1

-- in
FETCH RELATIVE 2 FROM c
-- out
same
-- rules
cursors cursor rejected error
cursor 1 "c" "" 0 elsewhere 3:2

-- in
FETCH RELATIVE -1 FROM c
-- out
same
-- rules
cursors cursor rejected error
cursor 1 "c" "" 0 elsewhere 3:-1

-- in
MOVE c
-- out
same
-- rules
cursors cursor answered info
cursor 2 "c" "" 1

-- in
MOVE FORWARD 2147483647 IN c
-- out
same
-- rules
cursors cursor answered info
cursor 2 "c" "" 2147483647

-- in
MOVE ALL FROM c
-- out
same
-- rules
cursors cursor answered info
cursor 2 "c" "" 0

-- in
MOVE BACKWARD FROM c
-- out
same
-- rules
cursors cursor rejected error
cursor 2 "c" "" 0 backward elsewhere 1:1

-- in
CLOSE c
-- out
same
-- rules
cursors cursor answered info
cursor 3 "c" "" 0

-- in
CLOSE "C d"
-- out
same
-- rules
cursors cursor answered info
cursor 3 "C d" "" 0

-- in
CLOSE ALL
-- out
SELECT 1
-- rules
session discard answered info
tag CLOSE CURSOR ALL

-- in
EXPLAIN DECLARE c CURSOR FOR SELECT 1
-- out
same
-- rules


