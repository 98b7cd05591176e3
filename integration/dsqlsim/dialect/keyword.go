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
	table
	unique
	update
	using
	values
	version
	keywordCount
)

// clues says what a keyword hints at.
var clues = [keywordCount]clue{
	forWord:   sawFor,
	into:      sawInto,
	setConfig: sawSetConfig,
	version:   sawVersion,
	using:     sawUsing,
	async:     sawAsync,
	special:   sawOther,
}

// longestKeyword is len("tablesample").
const longestKeyword = 11

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
	case "merge", "tablesample":
		return special
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
	case "version":
		return version
	}
	return none
}
