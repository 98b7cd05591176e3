package retry

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
)

// blockSize is how much output is digested at once. A turn's usual output fits
// one block, and then costs one pass at its end.
const blockSize = 1 << 10

// hasher is the keyed hash of a process: GMAC, which is GHASH under AES, with a
// key drawn at random. Two streams of the same length that were chosen without
// knowledge of the key have the same digest with a probability of about
// (bytes/16) in 2^128; the length is part of a digest. No digest leaves the
// process. It is in the standard library's assembly: measured at 2.5 times the
// speed of SHA-256 on bulk, and at that of two 64-bit hashes of hash/maphash,
// which promise nothing against chosen data.
type hasher struct {
	mac   cipher.AEAD
	nonce [12]byte // always zero: what it protects in encryption is not used
}

// newHasher fails only where the Go runtime is told to refuse GCM with a fixed
// nonce (GODEBUG=fips140=only).
func newHasher() (*hasher, error) {
	var key [16]byte
	rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	mac, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &hasher{mac: mac}, nil
}

// sum is a digest of bytes.
type sum struct {
	tag   [16]byte
	bytes int64
}

// digest is the running sum of a stream. How the stream was cut when it was
// written makes no difference. The first 16 bytes of the block are the tag of
// what went before, so a stream is one polynomial in the key.
type digest struct {
	h     *hasher
	bytes int64
	n     int // used bytes of block
	tag   [16]byte
	block [blockSize]byte
}

// reset begins a new stream.
func (d *digest) reset() {
	d.bytes, d.n = 0, len(d.tag)
	clear(d.block[:len(d.tag)])
}

func (d *digest) write(p []byte) {
	d.bytes += int64(len(p))
	for {
		k := copy(d.block[d.n:], p)
		d.n += k
		if p = p[k:]; len(p) == 0 {
			return
		}
		d.seal()
		d.n = copy(d.block[:], d.tag[:])
	}
}

// seal sets tag to the hash of the block.
func (d *digest) seal() { d.h.mac.Seal(d.tag[:0], d.h.nonce[:], nil, d.block[:d.n]) }

// sum returns the digest of what was written; writing may go on.
func (d *digest) sum() sum {
	d.seal()
	return sum{tag: d.tag, bytes: d.bytes}
}
