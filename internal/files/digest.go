package files

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// ChunkSize is how many bytes a chunk has; the last one of a file has the rest. A version's digest
// depends on it, so it can never change. A chunk fits into a message of a server with the default
// max_payload of 1 MiB.
const ChunkSize = 512 << 10

// Digest is a SHA-256 in 64 lower-case hexadecimal digits.
type Digest string

// DigestOf returns the digest of some bytes.
func DigestOf(b []byte) Digest {
	sum := sha256.Sum256(b)
	return Digest(hex.EncodeToString(sum[:]))
}

// Valid tells whether d has the form of a digest.
func (d Digest) Valid() bool { return len(d) == 2*sha256.Size && hexadecimal(string(d)) }

// Short returns the first 12 digits, enough for people to tell versions apart.
func (d Digest) Short() string { return string(d[:min(len(d), 12)]) }

func hexadecimal(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Check returns an error unless d is the digest of b.
func (d Digest) Check(b []byte) error {
	if got := DigestOf(b); got != d {
		return fmt.Errorf("content %s is damaged: its digest is %s", d.Short(), got.Short())
	}
	return nil
}
