package parse

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// NumberDuplicates returns names of columns as PostgreSQL's ChooseIndexColumnNames makes them: a repeated name gets a
// number. It omits the last columns if there are too many for an index name.
func NumberDuplicates(columns []string) []string {
	columns = columns[:min(len(columns), MaxName)]
	taken := make(map[string]bool, len(columns))
	all := make([]string, 0, len(columns))
	for _, column := range columns {
		name := column
		for i := 1; taken[name]; i++ {
			number := strconv.Itoa(i)
			name = clipUTF8(column, min(len(column), MaxName-len(number))) + number
		}
		taken[name] = true
		all = append(all, name)
	}
	return all
}

// JoinColumnNames joins names of columns by _, as far as PostgreSQL uses them in the name of an index.
func JoinColumnNames(columns []string) string {
	var b strings.Builder
	for _, column := range columns {
		if b.Len() > 0 {
			b.WriteByte('_')
		}
		b.WriteString(column)
		if b.Len() > MaxName {
			break
		}
	}
	return b.String()
}

// MakeObjectName joins first, second and label by _, as PostgreSQL's makeObjectName does. If the name is too long, it
// cuts the longer of first and second until the name fits.
func MakeObjectName(first, second, label string) string {
	room := MaxName - len(label) - 1
	if second != "" {
		room--
	}
	a, b := len(first), len(second)
	for a+b > room {
		if a > b {
			a--
		} else {
			b--
		}
	}
	name := clipUTF8(first, a)
	if second != "" {
		name += "_" + clipUTF8(second, b)
	}
	return name + "_" + label
}

// clipUTF8 returns at most the first n bytes of a text. It omits an incomplete character at the end.
func clipUTF8(s string, n int) string {
	if n == len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
