package dialect

// keyword is a word that the outline of a text takes notice of.
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
	keywordCount
)

// clues says what a keyword hints at.
var clues = [keywordCount]clue{
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
}

// longestKeyword is len("websearch_to_tsquery").
const longestKeyword = 20

// specials are words that rules for expressions and tables in FROM look for.
var specials = words("merge tablesample lateral point line lseg box path polygon circle regconfig to_tsvector " +
	"to_tsquery plainto_tsquery phraseto_tsquery websearch_to_tsquery json_to_tsvector jsonb_to_tsvector ts_headline")

// lookup finds the keyword that s spells, in any case, quoted or not.
func lookup(s string) keyword {
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
	switch string(lower[:len(s)]) {
	case "alter":
		return alter
	case "async":
		return async
	case "begin":
		return begin
	case "commit", "end":
		return commit
	case "create":
		return create
	case "delete":
		return delete_
	case "for":
		return forWord
	case "index":
		return index
	case "insert":
		return insert
	case "into":
		return into
	case "rollback", "abort":
		return rollback
	case "select":
		return selectWord
	case "set_config":
		return setConfig
	case "union", "intersect", "except":
		return setOperation
	case "table":
		return table
	case "unique":
		return unique
	case "update":
		return update
	case "using":
		return using
	case "values":
		return values
	case "with":
		return with
	case "from":
		return from
	case "join":
		return joinWord
	case "json", "json_object", "json_array", "json_objectagg", "json_arrayagg", "any_value":
		return modern
	case "version", "current_database", "current_catalog", "current_setting":
		return answered
	}
	if specials[string(lower[:len(s)])] {
		return special
	}
	return none
}
