package silent

import "encoding/binary"

// PickParams returns some parameters of a Bind, by their numbers from 1, in the form of a Bind: formats, values and no
// result formats. bind is the part of the Bind after its names, and may be malformed. Each value retains its format,
// text or binary. ok is false if the Bind does not have these parameters.
func PickParams(bind []byte, numbers []int) (picked []byte, ok bool) {
	take := func(n int) []byte {
		if n < 0 || n > len(bind) {
			bind = nil
			return nil
		}
		head := bind[:n]
		bind = bind[n:]
		return head
	}
	count := func() int {
		if b := take(2); b != nil {
			return int(binary.BigEndian.Uint16(b))
		}
		return -1
	}
	nf := count()
	formats := take(2 * nf)
	n := count()
	if n < 0 || nf > 1 && nf != n {
		return nil, false
	}
	all := make([][]byte, n) // each with its length
	for i := range all {
		if len(bind) < 4 {
			return nil, false
		}
		size := int(int32(binary.BigEndian.Uint32(bind)))
		if all[i] = take(4 + max(size, 0)); all[i] == nil {
			return nil, false
		}
	}
	picked = binary.BigEndian.AppendUint16(nil, uint16(len(numbers)))
	for _, p := range numbers {
		format := uint16(0)
		switch {
		case p > n:
			return nil, false
		case nf == 1:
			format = binary.BigEndian.Uint16(formats)
		case nf > 1:
			format = binary.BigEndian.Uint16(formats[2*(p-1):])
		}
		picked = binary.BigEndian.AppendUint16(picked, format)
	}
	picked = binary.BigEndian.AppendUint16(picked, uint16(len(numbers)))
	for _, p := range numbers {
		picked = append(picked, all[p-1]...)
	}
	return append(picked, 0, 0), true
}
