package incident

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"
)

// An incident file is a sequence of blocks, each readable without the others. A block is a skippable frame of zstd with
// what stands below, and a frame of zstd with lines of JSON. So `zstd -dc FILE` prints the lines, whatever reads them.
//
//	magic(4) length(4) "MRIF" version(1) section(1) 0(2) number(4) lines(4) first(8) last(8) packed(4) unpacked(4) sum of the frame(4) sum of this(4)
//
// All numbers are little-endian, and the sums CRC-32C. Number counts the blocks from 0, first and last are sequences of facts.
// The manifest comes first, then facts, output, the index, which says how many facts there are of each thing, and the end, which lists the blocks before it and repeats the manifest. Notes and
// another end are appended: the last end that is whole counts.

// Version is the version of the form that is written.
const Version = 1

// Section is what a block holds.
type Section uint8

// The sections.
const (
	SectionManifest Section = iota + 1
	SectionFacts            // lines of an export
	SectionOutput           // what tasks have printed
	SectionNotes            // what people have noted
	SectionEnd              // which blocks there are
	SectionIndex            // how many facts there are of each thing
)

var sectionNames = [...]string{SectionManifest: "manifest", SectionFacts: "facts", SectionOutput: "output", SectionNotes: "notes", SectionEnd: "end", SectionIndex: "index"}

func (s Section) String() string {
	if s > 0 && int(s) < len(sectionNames) {
		return sectionNames[s]
	}
	return fmt.Sprintf("section %d", uint8(s))
}

// Block says which block of a file something is.
type Block struct {
	Section Section `json:"section"`
	Number  uint32  `json:"number"`
	Lines   uint32  `json:"lines"`
	First   uint64  `json:"first,omitempty"`
	Last    uint64  `json:"last,omitempty"`
}

const (
	skippable = 0x184D2A5D // one of the magic numbers of frames that readers of zstd skip
	headSize  = 8 + 48
	sumAt     = headSize - 4
	// maxBlock is how large a block may be when it is unpacked: the largest message that a NATS server can be told to
	// take is 64 MB, in base64.
	maxBlock = 128 << 20
	// maxFile is how large all blocks together may be: what they hold is kept in memory.
	maxFile = 8 << 30
	// A block ends when it is a sixteenth of all that is before it, within these bounds: what is damaged is lost by the
	// block, and what is in large blocks takes less room.
	blockShare = 16
	minBlock   = 4 << 10
	maxLines   = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// lead is how each block begins.
var lead = func() []byte {
	b := binary.LittleEndian.AppendUint32(nil, skippable)
	b = binary.LittleEndian.AppendUint32(b, headSize-8)
	return append(b, "MRIF"...)
}()

// appendBlock appends a block with some lines.
func appendBlock(dst []byte, enc *zstd.Encoder, b Block, lines []byte) []byte {
	packed := enc.EncodeAll(lines, nil)
	le := binary.LittleEndian
	head := append(bytes.Clone(lead), Version, byte(b.Section), 0, 0)
	head = le.AppendUint32(head, b.Number)
	head = le.AppendUint32(head, b.Lines)
	head = le.AppendUint64(head, b.First)
	head = le.AppendUint64(head, b.Last)
	head = le.AppendUint32(head, uint32(len(packed))) //nolint:gosec // a block is smaller
	head = le.AppendUint32(head, uint32(len(lines)))  //nolint:gosec // a block is smaller
	head = le.AppendUint32(head, crc32.Checksum(packed, castagnoli))
	head = le.AppendUint32(head, crc32.Checksum(head, castagnoli))
	return append(append(dst, head...), packed...)
}

// head is what stands before the frame of a block.
type head struct {
	Block
	version          uint8
	packed, unpacked uint32
	sum              uint32
}

// readHead reads the head at the beginning of some bytes; false if there is none that is whole.
func readHead(b []byte) (h head, ok bool) {
	if len(b) < headSize || !bytes.HasPrefix(b, lead) {
		return h, false
	}
	le := binary.LittleEndian
	if crc32.Checksum(b[:sumAt], castagnoli) != le.Uint32(b[sumAt:]) {
		return h, false
	}
	h = head{version: b[12], packed: le.Uint32(b[40:]), unpacked: le.Uint32(b[44:]), sum: le.Uint32(b[48:])}
	h.Block = Block{Section(b[13]), le.Uint32(b[16:]), le.Uint32(b[20:]), le.Uint64(b[24:]), le.Uint64(b[32:])}
	return h, true
}

var (
	errCut  = errors.New("the file is cut there")
	errSum  = errors.New("it is damaged: its checksum is another one")
	errSize = errors.New("it is damaged: it says that it is larger than any block")
)

// lines are those of the block whose head stands at the beginning of some bytes.
func (h *head) lines(b []byte, dec *zstd.Decoder) ([]byte, error) {
	b = b[headSize:]
	switch {
	case h.unpacked > maxBlock:
		return nil, errSize
	case uint64(h.packed) > uint64(len(b)):
		return nil, errCut
	case crc32.Checksum(b[:h.packed], castagnoli) != h.sum:
		return nil, errSum
	}
	lines, err := dec.DecodeAll(b[:h.packed], make([]byte, 0, h.unpacked))
	if err != nil || len(lines) != int(h.unpacked) {
		return nil, errSum
	}
	return lines, nil
}
