Clause words where they are none, and clauses that are hard to see.

-- in
SELECT 'FOR SHARE', "FOR SHARE", $$ FOR SHARE $$, $x$ FOR NO KEY UPDATE $x$, E'\'FOR SHARE' FROM t FOR SHARE
-- out
SELECT 'FOR SHARE', "FOR SHARE", $$ FOR SHARE $$, $x$ FOR NO KEY UPDATE $x$, E'\'FOR SHARE' FROM t FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT 'x FOR SHARE' FROM t FOR UPDATE
-- out
same
-- rules


-- in
SELECT a /* FOR SHARE */ FROM t -- FOR NO KEY UPDATE
/* /* FOR SHARE */ */ FOR /* c */ SHARE /* d */ OF /* e */ t /* f */
-- out
SELECT a /* FOR SHARE */ FROM t -- FOR NO KEY UPDATE
/* /* FOR SHARE */ */ FOR /* c */ UPDATE /* d */ OF /* e */ t /* f */
-- rules
locking for_share rewritten info

-- in
SELECT a FROM t FOR--
NO--
KEY--
UPDATE--
-- out
SELECT a FROM t FOR--
--
--
UPDATE--
-- rules
locking for_no_key_update rewritten info

-- in
SELECT a AS for, b AS share FROM t FOR SHARE
-- out
SELECT a AS for, b AS share FROM t FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT t.for FROM t FOR SHARE
-- out
SELECT t.for FROM t FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT t.for share FROM t FOR SHARE
-- out
SELECT t.for share FROM t FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT share FROM share FOR SHARE OF share
-- out
SELECT share FROM share FOR UPDATE OF share
-- rules
locking for_share rewritten info

-- in
SELECT no, key, update FROM update AS no FOR NO KEY UPDATE OF no
-- out
SELECT no, key, update FROM update AS no FOR UPDATE OF no
-- rules
locking for_no_key_update rewritten info

-- in
SELECT substring(a FOR share) FROM t
-- out
same
-- rules


-- in
SELECT substring(a FOR share) FROM t FOR SHARE
-- out
SELECT substring(a FOR share) FROM t FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT overlay(a PLACING b FROM 1 FOR share), "substring"((SELECT 1 FROM u FOR SHARE)) FROM t FOR SHARE
-- out
SELECT overlay(a PLACING b FROM 1 FOR share), "substring"((SELECT 1 FROM u FOR UPDATE)) FROM t FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT substring(a FROM (b) FOR (SELECT share FROM t FOR SHARE)) FROM u
-- out
SELECT substring(a FROM (b) FOR (SELECT share FROM t FOR UPDATE)) FROM u
-- rules
locking for_share rewritten info

-- in
SELECT a FROM "t FOR SHARE" FOR SHARE OF "t FOR SHARE"
-- out
SELECT a FROM "t FOR SHARE" FOR UPDATE OF "t FOR SHARE"
-- rules
locking for_share rewritten info

-- in
SELECT a FROM t "ü" WHERE b = 'é' FOR SHARE OF "ü"
-- out
SELECT a FROM t "ü" WHERE b = 'é' FOR UPDATE OF "ü"
-- rules
locking for_share rewritten info

-- in
SELECT a FROM t FOR SHARE OF"t"LIMIT 1
-- out
SELECT a FROM t FOR UPDATE OF"t"LIMIT 1
-- rules
locking for_share rewritten info

-- in
SELECT a FROM(SELECT 1 FROM stripped_t FOR SHARE)t
-- out
SELECT a FROM(SELECT 1 FROM stripped_t)t
-- rules
locking for_share rewritten warning

-- in
(SELECT a FROM t) FOR SHARE
-- out
(SELECT a FROM t) FOR UPDATE
-- rules
locking for_share rewritten info

-- in
((SELECT a FROM t FOR SHARE)) FOR NO KEY UPDATE
-- out
((SELECT a FROM t FOR UPDATE)) FOR UPDATE
-- rules
locking for_share rewritten info
locking for_no_key_update rewritten info

-- in
SELECT a FROM t FOR SHARE FOR SHARE
-- out
SELECT a FROM t FOR UPDATE FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT a FROM t FOR UPDATE FOR SHARE FOR KEY SHARE FOR NO KEY UPDATE
-- out
SELECT a FROM t FOR UPDATE FOR UPDATE FOR KEY SHARE FOR UPDATE
-- rules
locking for_share rewritten info
locking for_no_key_update rewritten info

-- in
SELECT a FROM stripped_t FOR UPDATE FOR SHARE FOR KEY SHARE FOR NO KEY UPDATE
-- out
SELECT a FROM stripped_t FOR UPDATE FOR KEY SHARE
-- rules
locking for_share rewritten warning
locking for_no_key_update rewritten warning

-- in
CREATE POLICY p ON t FOR UPDATE USING (true)
-- out
same
-- rules
dialect row_security flagged error

-- in
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT a FROM t FOR SHARE $$
-- out
same
-- rules


-- in
CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT a FROM t FOR SHARE; SELECT 1; END
-- out
CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT a FROM t FOR UPDATE; SELECT 1; END
-- rules
locking for_share rewritten info

-- in
SELECT a FROM t WHERE b = 'FOR SHARE' AND c = '''FOR SHARE' FOR	SHARE
-- out
SELECT a FROM t WHERE b = 'FOR SHARE' AND c = '''FOR SHARE' FOR	UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT U&'\0046OR SHARE', U&"\0041" FROM t FOR SHARE
-- out
SELECT U&'\0046OR SHARE', U&"\0041" FROM t FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT a FROM t FOR SHARE
	OF t
-- out
SELECT a FROM t FOR UPDATE
	OF t
-- rules
locking for_share rewritten info

-- in
;;SELECT a FROM t FOR SHARE;;
-- out
;;SELECT a FROM t FOR UPDATE;;
-- rules
locking for_share rewritten info

-- in
SELEC a FROM t FOR SHARE
-- out
same
-- rules


-- in
SELECT a FROM t FOR SHARE; SELEC
-- out
same
-- rules


-- in
CREATE INDEX ASYNC i ON t (a); SELECT a FROM t FOR SHARE
-- out
CREATE INDEX ASYNC i ON t (a); SELECT a FROM t FOR UPDATE
-- rules
locking for_share rewritten info

-- in
CREATE INDEX async ON t (a); SELECT a FROM async FOR SHARE
-- out
CREATE INDEX async ON t (a); SELECT a FROM async FOR UPDATE
-- rules
locking for_share rewritten info

-- in
CREATE TABLE async (a int); SELECT a FROM async FOR SHARE
-- out
CREATE TABLE async (a int); SELECT a FROM async FOR UPDATE
-- rules
locking for_share rewritten info

