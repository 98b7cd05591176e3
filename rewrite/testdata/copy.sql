COPY FROM STDIN by Rules.CopyIn.

-- in
COPY t FROM STDIN
-- out
same
-- rules
copy copy_from answered warning
copy {Table:"t" Schema: Name:t Columns:[] CSV:false Binary:false Delimiter:9 Quote:34 Escape:34 Null:\N Header:false MatchHeader:false ForceNull:[] ForceNotNull:[]}

-- in
COPY s.t (a, "B c") FROM STDIN WITH (FORMAT csv, HEADER match, NULL 'x', FORCE_NULL (a))
-- out
same
-- rules
copy copy_from answered warning
copy {Table:"s"."t" Schema:s Name:t Columns:[a B c] CSV:true Binary:false Delimiter:44 Quote:34 Escape:34 Null:x Header:true MatchHeader:true ForceNull:[a] ForceNotNull:[]}

-- in
COPY t (a) FROM STDIN BINARY
-- out
same
-- rules
copy copy_from answered warning
copy {Table:"t" Schema: Name:t Columns:[a] CSV:false Binary:true Delimiter:9 Quote:34 Escape:34 Null:\N Header:false MatchHeader:false ForceNull:[] ForceNotNull:[]}

-- in
COPY t FROM STDIN WHERE a > 1
-- out
same
-- rules
copy copy_from rejected error
refusal 0A000

-- in
COPY t FROM STDIN (FREEZE)
-- out
same
-- rules
copy copy_from rejected error
refusal 0A000

-- in
COPY t FROM STDIN (ENCODING 'LATIN1')
-- out
same
-- rules
copy copy_from rejected error
refusal 0A000

-- in
COPY t FROM STDIN (DELIMITER 'xx')
-- out
same
-- rules
copy copy_from rejected error
refusal 0A000

-- in
SELECT 1; COPY t FROM STDIN
-- out
same
-- rules
copy copy_from rejected error
refusal 0A000

-- in
COPY t TO STDOUT
-- out
same
-- rules


-- in
COPY t FROM '/tmp/x'
-- out
same
-- rules


