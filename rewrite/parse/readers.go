package parse

import (
	"bytes"
	"slices"
)

// InputSettings is a set of session settings. They may affect how PostgreSQL reads constants when it parses a text.
type InputSettings uint8

// These are the members of InputSettings. Bit i is the setting InputSettingNames[i].
const (
	ByEncoding InputSettings = 1 << iota
	ByDateStyle
	ByIntervalStyle
	ByTimeZone
	byAll = ByEncoding | ByDateStyle | ByIntervalStyle | ByTimeZone
)

// InputSettingNames are the names of the settings in InputSettings, in lower case. The index is the setting's bit.
var InputSettingNames = [...]string{"client_encoding", "datestyle", "intervalstyle", "timezone"}

// inputSettingsByType maps types to the settings that affect how PostgreSQL reads their constants. A type without an
// entry counts as unknown. A date or a time without a zone depends on TimeZone only if it is a word, such as today.
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

// InputSettingsOfText returns the settings that may affect how PostgreSQL reads the text. It never returns too few. If
// the text gives a constant's type, the type decides about DateStyle, IntervalStyle and TimeZone. Otherwise the
// constant's content decides. client_encoding affects any byte beyond ASCII.
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

// constantInputSettings returns the settings that may affect how PostgreSQL reads the constant at token i. For two
// adjacent string constants, which form one constant, it returns all settings.
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

// constantType returns the type that the text gives to the constant at token i. The type before the constant applies,
// even if a cast follows the constant. If no type comes before it, the type after "::" applies. known is false if the
// text gives no type, or a type that inputSettingsByType lacks.
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

// typeNamedAt returns the type that the word at token at names. elsewhere says that the type's name has a schema.
func typeNamedAt(p *TokenList, at int, elsewhere bool) (kind string, known bool) {
	if elsewhere || at < 0 || at >= len(p.Tokens) || p.Tokens[at].Kind != WordToken {
		return "", false
	}
	if kind = string(bytes.ToLower(p.Lexeme(at))); kind == "timestamp" { // WITH TIME ZONE may follow
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
	return p.IsPunct(i-1, ')') // the end of a type such as timestamptz(3)
}

// expressionPrefixes are reserved words that may precede a constant. No type has one of these names.
var expressionPrefixes = WordSet("select where and or not case when then else in from on having limit offset distinct all any some to as array using for returning default " +
	"between values leading trailing both placing symmetric asymmetric")

// momentWords are words in a constant that mean a time. The time depends on the clock, and so on TimeZone.
var momentWords = [][]byte{[]byte("now"), []byte("today"), []byte("tomorrow"), []byte("yesterday"), []byte("allballs")}

// spans are words, such as year, that occur in intervals, but not in dates and times.
var spans = WordSet("year years month months week weeks day days hour hours minute minutes second seconds ago")

// dateSuffixWords are words after which digits may follow without a blank, in some date, time or interval constants.
var dateSuffixWords = WordSet("j t p pt y m w d h s z bc ad am pm jan january feb february mar march apr april may jun june jul july aug august sep sept september " +
	"oct october nov november dec december mon monday tue tues tuesday wed wednesday weds thu thur thurs thursday fri friday sat saturday sun sunday julian jd at on")

// temporalSettings returns the settings that affect a constant of unknown type, in case it is a date, a time or an
// interval. The result is empty if the constant cannot be one of these. moment says that it may be a word such as
// today.
func temporalSettings(constant []byte) (may InputSettings, moment bool) {
	const any = ByDateStyle | ByIntervalStyle | ByTimeZone
	if c := constant[0] | 0x20; (c == 'e' || c == 'u') && bytes.IndexByte(constant, '\\') >= 0 {
		return any, true // the constant has escapes, so its content is unclear
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
			for j < len(lower) && isDigit(lower[j]) { // such as item2, which no date contains
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

// InputSettingsNamed returns the InputSettings that have these names. It ignores all other names.
func InputSettingsNamed(names ...string) (by InputSettings) {
	for _, name := range names {
		if i := slices.Index(InputSettingNames[:], name); i >= 0 {
			by |= 1 << i
		}
	}
	return by
}
