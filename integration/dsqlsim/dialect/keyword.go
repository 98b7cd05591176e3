package dialect

// keyword is a word of SQL that the scan of a text (textOutline) looks for.
type keyword uint8

const (
	none keyword = iota
	alter
	async
	begin
	commit
	create
	delete_
	forWord
	index
	insert
	into
	rollback
	selectWord
	setConfig
	setOperation // UNION, INTERSECT, EXCEPT
	special      // makes a SELECT or DML special in another way
	answered     // what the cluster says of itself
	table
	unique
	update
	using
	values
	with
	from
	joinWord
	modern // of SQL/JSON, any_value
	encode
	keywordCount
)

// cluesByKeyword maps each keyword to the clue that it sets in a text's outline. A clue is a kind of words on which a
// rule of package dialect depends.
var cluesByKeyword = [keywordCount]clueSet{
	forWord:    sawFor,
	into:       sawInto,
	setConfig:  sawSetConfig,
	answered:   sawAnswered,
	modern:     sawModern,
	values:     sawValues,
	selectWord: sawSelect,
	using:      sawUsing,
	async:      sawAsync,
	special:    sawSpecial,
	encode:     sawEncode,
}

// longestKeyword is the length of the longest keyword, len("pg_try_advisory_xact_lock_shared").
const longestKeyword = 32

// advisoryLocks are the functions that take and release advisory locks.
const advisoryLocks = "pg_advisory_lock pg_advisory_lock_shared pg_try_advisory_lock pg_try_advisory_lock_shared pg_advisory_xact_lock " +
	"pg_advisory_xact_lock_shared pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared pg_advisory_unlock pg_advisory_unlock_shared pg_advisory_unlock_all"

// keywords maps the words of each keyword, in lower case, to that keyword. The words of keyword special matter for
// rules about expressions and tables in FROM.
var keywords = keywordsBySpelling([keywordCount]string{
	alter:        "alter",
	async:        "async",
	begin:        "begin",
	commit:       "commit end",
	create:       "create",
	delete_:      "delete",
	forWord:      "for",
	index:        "index",
	insert:       "insert",
	into:         "into",
	rollback:     "rollback abort",
	selectWord:   "select",
	setConfig:    "set_config",
	setOperation: "union intersect except",
	special: "merge tablesample lateral point line lseg box path polygon circle regconfig to_tsvector " +
		"to_tsquery plainto_tsquery phraseto_tsquery websearch_to_tsquery json_to_tsvector jsonb_to_tsvector ts_headline " + advisoryLocks,
	answered: "version current_database current_catalog current_setting",
	table:    "table",
	unique:   "unique",
	update:   "update",
	using:    "using",
	values:   "values",
	with:     "with",
	from:     "from",
	joinWord: "join",
	encode:   "encode decode",
	modern:   "json json_object json_array json_objectagg json_arrayagg any_value",
})

func keywordsBySpelling(spellings [keywordCount]string) map[string]keyword {
	found := make(map[string]keyword)
	for key, list := range spellings {
		for w := range wordSet(list) {
			found[w] = keyword(key)
		}
	}
	return found
}

// lookUpKeyword returns the keyword that s spells, in any case, quoted or not.
func lookUpKeyword(s string) keyword {
	if len(s) > 2 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	if len(s) > longestKeyword {
		return none
	}
	var lower [longestKeyword]byte
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	return keywords[string(lower[:len(s)])]
}
