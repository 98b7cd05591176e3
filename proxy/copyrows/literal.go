package copyrows

import "bytes"

// AppendTuple appends a row in the form of VALUES, for servers with standard_conforming_strings on.
func AppendTuple(dst []byte, fields [][]byte) []byte {
	dst = append(dst, '(')
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		if f == nil {
			dst = append(dst, "NULL"...)
			continue
		}
		dst = append(dst, '\'')
		for _, c := range f {
			if c == '\'' {
				dst = append(dst, '\'')
			}
			dst = append(dst, c)
		}
		dst = append(dst, '\'')
	}
	return append(dst, ')')
}

// TupleLen returns the length of the text that AppendTuple appends for a row.
func TupleLen(fields [][]byte) int {
	n := 1 + len(fields)
	for _, f := range fields {
		if f == nil {
			n += len("NULL")
		} else {
			n += 2 + len(f) + bytes.Count(f, []byte{'\''})
		}
	}
	return max(n, 2)
}

// TupleValueAt returns the column and the value at a byte offset in a tuple that AppendTuple made. The value is nil for
// NULL.
func TupleValueAt(tuple []byte, place int) (column int, value []byte) {
	quoted := false
	for i := 1; i < len(tuple); i++ {
		c := tuple[i]
		switch {
		case c == '\'' && !quoted:
			quoted, value = true, []byte{}
		case c == '\'' && i+1 < len(tuple) && tuple[i+1] == '\'':
			value = append(value, c)
			i++
		case c == '\'':
			quoted = false
		case quoted:
			value = append(value, c)
		case c == ',' || c == ')':
			if i >= place {
				return column, value
			}
			column, value = column+1, nil
		}
	}
	return column, value
}
