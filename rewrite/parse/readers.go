package parse

import (
	"bytes"
	"slices"
)

// InputSettings are the settings that may affect how PostgreSQL reads constants when it parses a text.
type InputSettings uint8

// These are the settings in InputSettings, in the order of InputSettingNames.
const (
	ByEncoding InputSettings = 1 << iota
	ByDateStyle
	ByIntervalStyle
	ByTimeZone
	byAll = ByEncoding | ByDateStyle | ByIntervalStyle | ByTimeZone
)

// InputSettingNames are the names of the settings in InputSettings, in lower case.
var InputSettingNames = [...]string{"client_encoding", "datestyle", "intervalstyle", "timezone"}

// inputSettingsByType maps PostgreSQL's types to the settings that affect how their constants are read. Types without
// an entry are unknown. A date and a time without a zone depend on TimeZone if a word gives them, such as today.
var inputSettingsByType = func() map[string]InputSettings {
	m := map[string]InputSettings{"date": ByDateStyle, "timestamp": ByDateStyle, "daterange": ByDateStyle, "tsrange": ByDateStyle,
		"datemultirange": ByDateStyle, "tsmultirange": ByDateStyle, "interval": ByIntervalStyle}
	for name := range WordSet("timestamptz tstzrange tstzmultirange time timetz") {
		m[name] = ByDateStyle | ByTimeZone
	}
	for name := range WordSet("text varchar bpchar char character name int int2 int4 int8 smallint integer bigint numeric decimal dec real float float4 float8 " +
		"double bool boolean uuid json jsonb bytea inet cidr macaddr macaddr8 oid bit varbit int4range int8range numrange") {
		m[name] = 0
	}
	return m
}()

// InputSettingsOfText returns the settings that may affect constants of a text, or other parts of it, and never too
// few. For DateStyle, IntervalStyle and TimeZone the type of a constant decides if the text gives the type, otherwise
// the constant's content. client_encoding affects any byte beyond ASCII.
func InputSettingsOfText(sql []byte) InputSettings {
	by := InputSettings(0)
	if bytes.ContainsFunc(sql, func(r rune) bool { return r >= 0x80 }) {
		by = ByEncoding
	}
	var tokens []LexedToken
	strings := false
	for l := (Lexer{Text: sql, UTF8: true}); ; {
		kind := l.Next()
		if kind == BadToken {
			return byAll
		}
		if kind == EndToken {
			break
		}
		strings = strings || kind == StringToken
		tokens = append(tokens, LexedToken{Kind: kind, Start: int32(l.Start), End: int32(l.Pos)})
	}
	if !strings {
		return by
	}
	ph := TokenList{Text: sql, Tokens: tokens}
	for i := range tokens {
		if tokens[i].Kind == StringToken {
			by |= constantInputSettings(&ph, i)
		}
	}
	return by
}

// constantInputSettings returns the settings that may affect how the constant at token i is read. Two adjacent
// constants are one.
func constantInputSettings(p *TokenList, i int) InputSettings {
	beside := func(n int) bool { return n >= 0 && n < len(p.Tokens) && p.Tokens[n].Kind == StringToken }
	if beside(i-1) || beside(i+1) {
		return byAll
	}
	may, moment := temporalSettings(p.Lexeme(i))
	kind, known := constantType(p, i)
	switch by := inputSettingsByType[kind]; {
	case known && by != 0 && moment:
		return by | ByTimeZone
	case known:
		return may & by
	}
	return may
}

// constantType returns the type that a text gives to the constant at token i. A type before the constant applies even
// if the constant is cast to another type. Without one, the type after "::" applies. known is false if there is no
// type, or one that inputSettingsByType lacks.
func constantType(p *TokenList, i int) (kind string, known bool) {
	if mayFollowType(p, i) {
		return typeNamedAt(p, i-1, p.IsPunct(i-2, '.'))
	}
	at := i + 2
	if !(i+1 < len(p.Tokens) && p.Tokens[i+1].Kind == CastToken) && !(p.IsKeyword(i+1, "as") && p.IsPunct(i-1, '(') && p.IsKeyword(i-2, "cast")) {
		return "", false
	}
	if p.IsKeyword(at, "pg_catalog") && p.IsPunct(at+1, '.') {
		at += 2
	}
	return typeNamedAt(p, at, p.IsPunct(at+1, '.'))
}

// typeNamedAt returns the type that the word at token at names. elsewhere reports that the type is in a schema.
func typeNamedAt(p *TokenList, at int, elsewhere bool) (kind string, known bool) {
	if elsewhere || at < 0 || at >= len(p.Tokens) || p.Tokens[at].Kind != WordToken {
		return "", false
	}
	if kind = string(bytes.ToLower(p.Lexeme(at))); kind == "timestamp" { // perhaps WITH TIME ZONE
		kind = "timestamptz"
	}
	_, known = inputSettingsByType[kind]
	return kind, known
}

// mayFollowType reports whether the word before the constant at token i may be a type.
func mayFollowType(p *TokenList, i int) bool {
	if i == 0 {
		return false
	}
	switch p.Tokens[i-1].Kind {
	case WordToken:
		return !expressionPrefixes[string(bytes.ToLower(p.Lexeme(i-1)))]
	case QuotedToken:
		return true
	}
	return p.IsPunct(i-1, ')') // of timestamptz(3)
}

// expressionPrefixes are reserved words that may precede an expression. No type has these names.
var expressionPrefixes = WordSet("select where and or not case when then else in from on having limit offset distinct all any some to as array using for returning default " +
	"between values leading trailing both placing symmetric asymmetric")

// momentWords are words for a time that depends on the clock, and so on TimeZone.
var momentWords = [][]byte{[]byte("now"), []byte("today"), []byte("tomorrow"), []byte("yesterday"), []byte("allballs")}

// spans are words of intervals, such as year, that dates and times lack.
var spans = WordSet("year years month months week weeks day days hour hours minute minutes second seconds ago")

// dateSuffixWords are words that digits may follow without a blank in some date, time or interval constants.
var dateSuffixWords = WordSet("j t p pt y m w d h s z bc ad am pm jan january feb february mar march apr april may jun june jul july aug august sep sept september " +
	"oct october nov november dec december mon monday tue tues tuesday wed wednesday weds thu thur thurs thursday fri friday sat saturday sun sunday julian jd at on")

// temporalSettings returns the settings that affect a constant if it is a date, a time or an interval. The result is
// none if the constant cannot be one. moment says that the constant may be a word for a time.
func temporalSettings(constant []byte) (may InputSettings, moment bool) {
	const any = ByDateStyle | ByIntervalStyle | ByTimeZone
	if c := constant[0] | 0x20; (c == 'e' || c == 'u') && bytes.IndexByte(constant, '\\') >= 0 {
		return any, true // PostgreSQL alone knows its content
	}
	lower := bytes.ToLower(constant)
	for _, word := range momentWords {
		if bytes.Contains(lower, word) {
			return any, true
		}
	}
	digits, span := false, false
	for i := 0; i < len(lower); {
		j := i
		for j < len(lower) && isLetter(lower[j]) {
			j++
		}
		word := lower[i:j]
		span = span || spans[string(word)]
		switch {
		case j == i:
			digits = digits || isDigit(lower[i])
			i++
			continue
		case j < len(lower) && isDigit(lower[j]) && !dateSuffixWords[string(word)] && !spans[string(word)]:
			for j < len(lower) && isDigit(lower[j]) { // item2: no date has it
				j++
			}
		}
		i = j
	}
	switch {
	case !digits:
		return 0, false
	case span:
		return ByIntervalStyle, false
	}
	return any, false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// InputSettingsNamed returns the InputSettings with these names, and ignores other names.
func InputSettingsNamed(names ...string) (by InputSettings) {
	for _, name := range names {
		if i := slices.Index(InputSettingNames[:], name); i >= 0 {
			by |= 1 << i
		}
	}
	return by
}
