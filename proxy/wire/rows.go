package wire

import "encoding/binary"

// CountRows returns the number of DataRows in rows, or -1 if rows has other bytes.
func CountRows(rows []byte) (n int) {
	for ; len(rows) > 0; n++ {
		if len(rows) < HeaderLen || rows[0] != DataRow {
			return -1
		}
		size := 1 + int(binary.BigEndian.Uint32(rows[1:]))
		if size < HeaderLen || size > len(rows) {
			return -1
		}
		rows = rows[size:]
	}
	return n
}

// FirstRow returns the first DataRow in rows, or nil if the DataRow is incomplete.
func FirstRow(rows []byte) []byte {
	if len(rows) < HeaderLen || rows[0] != DataRow {
		return nil
	}
	if size := 1 + int(binary.BigEndian.Uint32(rows[1:])); size >= HeaderLen && size <= len(rows) {
		return rows[:size]
	}
	return nil
}

// ColumnCount returns the number of columns of a DataRow, which must be complete.
func ColumnCount(row []byte) int {
	if len(row) < HeaderLen+2 {
		return 0
	}
	return int(binary.BigEndian.Uint16(row[HeaderLen:]))
}

// SplitRows returns the values of each DataRow in rows, nil for NULL. SplitRows returns nil if a row does not have
// width columns. The values share the memory of rows.
func SplitRows(rows []byte, width int) (all [][][]byte) {
	for len(rows) > 0 {
		size := 1 + int(binary.BigEndian.Uint32(rows[1:]))
		payload := rows[HeaderLen:size]
		rows = rows[size:]
		if len(payload) < 2 || int(binary.BigEndian.Uint16(payload)) != width {
			return nil
		}
		row := make([][]byte, width)
		payload = payload[2:]
		for i := range row {
			if len(payload) < 4 {
				return nil
			}
			n := int(int32(binary.BigEndian.Uint32(payload)))
			payload = payload[4:]
			if n < 0 {
				continue
			}
			if n > len(payload) {
				return nil
			}
			row[i], payload = payload[:n:n], payload[n:]
		}
		all = append(all, row)
	}
	return all
}
