package parse

import (
	"strings"
	"testing"
)

// lexemes splits a text with blanks in between; a bad token is a question mark.
func lexemes(text string) string {
	names := map[TokenKind]string{WordToken: "w", QuotedToken: "q", StringToken: "s", NumberToken: "n", OddToken: "o",
		ParamToken: "p", OperatorToken: "op", CastToken: "c", PunctToken: "t"}
	l := Lexer{Text: []byte(text), UTF8: true}
	var all []string
	for {
		switch kind := l.Next(); kind {
		case EndToken:
			return strings.Join(all, " ")
		case BadToken:
			return strings.Join(append(all, "?"), " ")
		default:
			all = append(all, names[kind]+":"+string(l.Lexeme()))
		}
	}
}

func TestLexer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"a b1 _c d$e é", "w:a w:b1 w:_c w:d$e w:é"},
		{"'a' 'it''s' '' '\\'", `s:'a' s:'it''s' s:'' s:'\'`},
		{`E'a\'b' e'\\' E'a''b'`, `s:E'a\'b' s:e'\\' s:E'a''b'`},
		{"E'a'\n'\\'b' c", "s:E'a'\n'\\'b' w:c"},
		{"E'a' -- x\n '\\'b'", "s:E'a' -- x\n '\\'b'"},
		{"E'a' b", "s:E'a' w:b"},
		{"E'a' 'b'", "?"},
		{"E'a\\", "?"},
		{"B'1' x'f' N'a' U&'a' U&\"a\" u & a", `s:B'1' s:x'f' s:N'a' s:U&'a' q:U&"a" w:u op:& w:a`},
		{`"a""b" ""`, `q:"a""b" q:""`},
		{"$1 $23", "p:$1 p:$23"},
		{"$$a'b$$ $x$ $$ $y$ $x$", "s:$$a'b$$ s:$x$ $$ $y$ $x$"},
		{"a$b$ $ $-", "w:a$b$ t:$ t:$ op:-"},
		{"$1$a$'$a$", "p:$1 s:$a$'$a$"},
		{"1 1.5 .5 1e5 0x1F 1a $1a", "n:1 n:1.5 t:. n:5 o:1e5 o:0x1F o:1a o:$1a"},
		{"1. a 1..2 1.5.6 1.e $1.a", "n:1. w:a n:1 t:. t:. n:2 n:1.5 t:. n:6 o:1.e p:$1 t:. w:a"},
		{"a::b:c := d => e", "w:a c::: w:b t:: w:c t:: op:= w:d op:=> w:e"},
		{"a+-b<>c->>d", "w:a op:+- w:b op:<> w:c op:->> w:d"},
		{"a--b\nc+--d\re", "w:a w:c op:+ w:e"},
		{"a/*b/*c*/d*/e*/*f*/g", "w:a w:e op:* w:g"},
		{"a;(b)[c],d", "w:a t:; t:( w:b t:) t:[ w:c t:] t:, w:d"},
		{"\t\n\r\f\va", "w:a"},
		{"'a", "?"}, {`"a`, "?"}, {"$$a", "?"}, {"$a$ $b$", "?"}, {"/* /* */", "?"}, {"a\x00", "w:a ?"},
		{"/*/", "?"}, {"/**/a", "w:a"},
		{"-- a", ""}, {"--", ""},
	} {
		if got := lexemes(c.text); got != c.want {
			t.Errorf("%q\n got  %s\n want %s", c.text, got, c.want)
		}
	}
}

// TestRuns holds that a text that takes PostgreSQL's scanner more than linear
// time is bad, and that banners are not.
func TestRuns(t *testing.T) {
	t.Parallel()
	for text, bad := range map[string]bool{
		strings.Repeat("/*", 65) + strings.Repeat("*/", 65):                true,
		strings.Repeat("/* ", 65) + strings.Repeat("*/ ", 65):              false,
		strings.Repeat("/**/", 65):                                         true,
		strings.Repeat("/**/\n", 65):                                       false,
		"1" + strings.Repeat("+/**/", 65) + "1":                            true,
		"1" + strings.Repeat("+/*+*/-", 40) + "1":                          true,
		"1" + strings.Repeat("+", 65) + "1":                                true,
		"1" + strings.Repeat(" + 1", 1000):                                 false,
		"/*" + strings.Repeat("*", 1000) + "/ a":                           false,
		"/* " + strings.Repeat("-+=", 1000) + "*/ a":                       false,
		"/* " + strings.Repeat(strings.Repeat("=", 80)+"\n", 100) + "*/ a": false,
		strings.Repeat("a /*= b =*/ ", 100):                                false,
	} {
		if got := strings.HasSuffix(lexemes(text), "?"); got != bad {
			t.Errorf("%.40q: bad %v, want %v", text, got, bad)
		}
	}
}

// A text that is cut at any byte, and one with a backslash or a quote there, is read to its end and no further.
func TestTextsCutShort(t *testing.T) {
	t.Parallel()
	const text = `SELECT E'a\\\'b' 'c' "d""e" U&"f" U&'g' N'h' B'1' X'ff' $i$j$i$ $1 1.5e+6 1_0 k::l m.n -- o
		/* p /* q */ r */ + -- s
		E't'
		'u\\' <> ANY ('{v}') [w] := $x$y`
	for n := range len(text) {
		for _, end := range []string{"", `\`, "'", `"`, "$", "E'", "/*", "-", "\xc3"} {
			sql := []byte(text[:n] + end)
			CheckLimits(sql[:len(sql):len(sql)], usualBytes, usualNesting)
		}
	}
}
